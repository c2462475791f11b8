// JSON Schema -> a form with a JSON editor beside it; both are kept in step. What a form cannot show is a JSON editor of its own.

import { append, attribute, button, el, replace, setText } from "./dom.js";
import { exactNumber, isExactNumber, parseExact } from "./exact.js";

/**
 * @typedef {import("./types").Json} Json
 * @typedef {{element: HTMLElement, get: () => Json, set: (value: Json) => void, problem: () => string | null}} Field
 *   `get` returns undefined if the value is absent.
 * @typedef {{schema: Json, root: Json, required: boolean, depth: number, changed: () => void, label: string, budget: {fields: number}, complete?: Completer}} FieldPlace
 * @typedef {(argument: string, value: string) => Promise<string[]>} Completer
 */

/** Levels of objects and arrays that are shown as fields. */
const MOST_LEVELS = 5;
/** Fields of one object; more are a JSON editor. */
const MOST_FIELDS = 200;
/** Fields of a whole form: a schema that contains itself could have any number of them. */
const MOST_FIELDS_IN_ALL = 2000;
let lastId = 0;

/** A form for an object, and its JSON. */
export class SchemaForm {
  /**
   * @param {Json} schema
   * @param {{complete?: Completer, label?: string}} [options]
   */
  constructor(schema, options) {
    this.problems = el("p", { class: "problem", role: "status", hidden: true });
    this.area = el("textarea", { class: "json", spellcheck: "false", rows: 6, "aria-label": options?.label ?? "Arguments as JSON" });
    this.field = makeField({ schema: isObject(schema) ? schema : {}, root: schema, required: true, depth: 0, label: "", changed: () => this.#fromFields(), budget: { fields: MOST_FIELDS_IN_ALL }, complete: options?.complete });
    this.area.addEventListener("input", () => this.#fromText());
    const onlyJson = this.field.element.dataset.json === "true";
    this.element = el("div", { class: onlyJson ? "schema-form only-json" : "schema-form" }, onlyJson ? null : el("div", { class: "fields" }, this.field.element), el("div", { class: "json-side" }, this.area, this.problems));
    this.#fromFields();
  }

  /** The JSON text, as it is in the editor. */
  get text() {
    return this.area.value.trim() === "" ? "{}" : this.area.value;
  }

  /** The value, or undefined if the text is not JSON. */
  get value() {
    return parsed(this.text);
  }

  /** @param {Json} value */
  set(value) {
    this.field.set(value);
    this.#fromFields();
  }

  #fromFields() {
    this.area.value = JSON.stringify(this.field.get() ?? {}, null, 2);
    this.#tell(null);
  }

  #fromText() {
    const value = parsed(this.text);
    if (value === undefined) {
      this.#tell("This is not JSON. It is sent as it is.");
      return;
    }
    this.field.set(value);
    this.#tell(null);
  }

  /** @param {string | null} problem */
  #tell(problem) {
    const text = problem ?? this.field.problem() ?? "";
    setText(this.problems, text);
    this.problems.hidden = text === "";
    attribute(this.area, "aria-invalid", problem !== null);
  }
}

/** @param {string} text */
function parsed(text) {
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isExactNumber(value);
}

/**
 * Returns the schema that a reference within the same document names.
 * @param {Json} schema
 * @param {Json} root
 */
function resolved(schema, root) {
  let here = schema;
  for (let steps = 0; steps < 8 && isObject(here) && typeof here.$ref === "string"; steps += 1) {
    const { $ref, ...rest } = here;
    if (!$ref.startsWith("#")) return here;
    let found = root;
    for (const part of $ref.slice(1).split("/").filter(Boolean)) {
      const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
    }
    if (!isObject(found)) return here;
    here = { ...found, ...rest };
  }
  return here;
}

/**
 * Returns the choices of a schema with fixed values, with their titles.
 * @param {Json} schema
 * @returns {[Json, string][] | null}
 */
function choicesOf(schema) {
  if (Object.hasOwn(schema, "const")) return [[schema.const, words(schema.title ?? schema.const)]];
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((/** @type {Json} */ value, /** @type {number} */ index) => [value, words(names[index] ?? value)]);
  }
  const options = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(options) && options.length && options.every((each) => isObject(each) && Object.hasOwn(each, "const"))) {
    return options.map((each) => [each.const, words(each.title ?? each.const)]);
  }
  return null;
}

/** @param {Json} value */
function words(value) {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

/**
 * Returns the schema without "or null": what a form shows as an empty field.
 * @param {Json} schema
 * @param {Json} root
 */
function withoutNull(schema, root) {
  const options = schema.anyOf ?? schema.oneOf;
  if (!Array.isArray(options) || choicesOf(schema)) return schema;
  const others = options.map((each) => resolved(each, root)).filter((each) => !(isObject(each) && each.type === "null"));
  if (others.length !== 1 || !isObject(others[0])) return schema;
  const { anyOf: _anyOf, oneOf: _oneOf, ...rest } = schema;
  return { ...others[0], ...rest };
}

/**
 * Returns a schema without `allOf`: with the members of all its schemas.
 * @param {Json} schema
 * @param {Json} root
 * @param {number} [levels]
 * @returns {Json}
 */
function merged(schema, root, levels = 8) {
  if (!isObject(schema) || !Array.isArray(schema.allOf) || levels === 0) return schema;
  const { allOf, ...own } = schema;
  let all = own;
  for (const each of allOf) {
    const next = merged(resolved(each, root), root, levels - 1);
    const both = isObject(next) ? mergedPair(all, next) : null;
    if (!both) return schema;
    all = both;
  }
  return all;
}

/**
 * Returns a schema that asks for what two schemas ask for, or null if a form cannot show that.
 * @param {Json} a
 * @param {Json} b
 */
function mergedPair(a, b) {
  const closed = ["oneOf", "anyOf", "enum", "const", "items", "prefixItems", "not", "if", "then", "else", "$ref", "type"];
  if (closed.some((name) => a[name] !== undefined && b[name] !== undefined && JSON.stringify(a[name]) !== JSON.stringify(b[name]))) return null;
  const both = { ...b, ...a };
  if (isObject(a.properties) && isObject(b.properties)) {
    const names = [...new Set([...Object.keys(a.properties), ...Object.keys(b.properties)])];
    const of = (/** @type {Json} */ properties, /** @type {string} */ name) => (Object.hasOwn(properties, name) ? [properties[name]] : []);
    both.properties = Object.fromEntries(names.map((name) => {
      const schemas = [...of(a.properties, name), ...of(b.properties, name)];
      return [name, schemas.length === 1 ? schemas[0] : { allOf: schemas }];
    }));
  }
  if (Array.isArray(a.required) && Array.isArray(b.required)) both.required = [...new Set([...a.required, ...b.required])];
  return both;
}

/**
 * Returns a schema as a form shows it: what it refers to, without "or null", with the members of `allOf`.
 * @param {Json} schema
 * @param {Json} root
 */
function shownSchema(schema, root) {
  return merged(withoutNull(merged(resolved(schema, root), root), root), root);
}

/**
 * Returns the schemas among which a value has to choose, or null if there is only one.
 * @param {Json} schema
 * @param {Json} root
 * @returns {Json[] | null}
 */
function variantsOf(schema, root) {
  const types = Array.isArray(schema.type) ? schema.type.filter((/** @type {string} */ each) => each !== "null") : [];
  if (types.length > 1) return types.map((/** @type {string} */ type) => ({ ...schema, type, title: undefined }));
  const { oneOf, anyOf, ...rest } = schema;
  const options = oneOf ?? anyOf;
  if (!Array.isArray(options) || (oneOf !== undefined && anyOf !== undefined) || options.length < 2 || options.length > MOST_FIELDS) return null;
  const shown = options.map((each) => shownSchema(each, root));
  if (!shown.every(isObject)) return null;
  // Options that only say which members must be there do not change the form.
  if (shown.every((each) => !["type", "properties", "oneOf", "anyOf", "enum", "const", "items"].some((name) => each[name] !== undefined))) return null;
  const variants = shown.map((each) => {
    const both = mergedPair(each, rest);
    return both && { ...both, title: each.title, description: each.description, default: each.default };
  });
  return variants.every(Boolean) ? variants : null;
}

/**
 * Returns the name of a variant: its title, the fixed value of a member, its type.
 * @param {Json} variant
 * @param {number} index
 */
function variantName(variant, index) {
  if (typeof variant.title === "string") return variant.title;
  const fixed = Object.entries(isObject(variant.properties) ? variant.properties : {}).find(([, each]) => isObject(each) && Object.hasOwn(each, "const"));
  if (fixed) return `${fixed[0]}: ${words(fixed[1].const)}`;
  return typeof variant.type === "string" ? variant.type : `variant ${index + 1}`;
}

/**
 * Returns how well a value fits a schema; less than 0 if it does not.
 * @param {Json} schema
 * @param {Json} value
 * @param {Json} root
 * @param {number} levels
 * @returns {number}
 */
function fit(schema, value, root, levels) {
  const shown = shownSchema(schema, root);
  if (!isObject(shown) || levels === 0) return 0;
  const choices = choicesOf(shown);
  if (choices) return choices.some(([choice]) => JSON.stringify(choice) === JSON.stringify(value)) ? 2 : -1;
  const number = typeof value === "number" || isExactNumber(value);
  const type = value === null ? "null" : Array.isArray(value) ? "array" : number ? "number" : typeof value;
  const types = [shown.type ?? (isObject(shown.properties) ? "object" : type)].flat();
  const isInteger = number && Number.isInteger(numberOf(value));
  if (!types.includes(type) && !(isInteger && types.includes("integer"))) return -1;
  if (type !== "object") return types.includes("integer") ? 2 : 1;
  let points = 1;
  for (const [name, each] of Object.entries(isObject(shown.properties) ? shown.properties : {})) {
    if (!Object.hasOwn(value, name)) points -= Array.isArray(shown.required) && shown.required.includes(name) ? 0.5 : 0;
    else {
      const part = fit(each, value[name], root, levels - 1);
      if (part < 0) return -1;
      points += 1 + part;
    }
  }
  return points < 0 ? 0 : points;
}

/** @param {Json} value a number, or one that is kept as its text */
function numberOf(value) {
  return typeof value === "number" ? value : Number(JSON.stringify(value));
}

/**
 * @param {FieldPlace} place
 * @returns {Field}
 */
function makeField(place) {
  const root = place.root;
  const schema = shownSchema(place.schema, root);
  const here = { ...place, schema };
  place.budget.fields -= 1;
  if (!isObject(schema) || place.budget.fields < 0) return jsonField(here);
  if (choicesOf(schema)) return choiceField(here);
  const types = Array.isArray(schema.type) ? schema.type.filter((/** @type {string} */ each) => each !== "null") : [schema.type];
  const type = types.length === 1 ? types[0] : undefined;
  if (type === "string") return textField(here);
  if (type === "integer" || type === "number") return numberField(here, type);
  if (type === "boolean") return booleanField(here);
  if (place.depth < MOST_LEVELS) {
    const variants = variantsOf(schema, root);
    if (variants) return variantField(here, variants);
    const fields = isObject(schema.properties) ? Object.keys(schema.properties).length : 0;
    const open = ["allOf", "if"].some((name) => schema[name] !== undefined);
    const named = isObject(schema.additionalProperties) && Object.keys(schema.additionalProperties).length > 0;
    if ((type === "object" || type === undefined) && (fields > 0 || named) && fields <= MOST_FIELDS && (!open || place.depth === 0)) return objectField(here);
    if (type === "object" && place.depth === 0 && fields === 0 && !open && schema.additionalProperties !== true) return objectField(here);
    if (type === "array" && (isObject(schema.items) || tupleOf(schema).length > 0)) return arrayField(here);
  }
  return jsonField(here);
}

/**
 * Puts a label, a description and the rules around an input.
 * @param {FieldPlace} place
 * @param {HTMLElement} input
 * @param {string} rules
 */
function labelled(place, input, rules) {
  const { schema, label, required } = place;
  lastId += 1;
  input.id = `field-${lastId}`;
  const notes = [typeof schema.description === "string" ? schema.description : "", rules].filter(Boolean).join(" · ");
  const help = notes ? el("span", { class: "hint", id: `hint-${lastId}` }, notes) : null;
  if (help) attribute(input, "aria-describedby", help.id);
  if (label === "") attribute(input, "aria-label", typeof schema.title === "string" ? schema.title : "Value");
  const name = label === "" ? null : el("label", { for: input.id }, el("span", { class: "field-name" }, label), typeof schema.title === "string" && schema.title !== label ? ` ${schema.title}` : "", required ? el("span", { class: "required", title: "required" }, " *") : "");
  return el("div", { class: "field" }, name, input, help);
}

/**
 * @param {Json} schema
 * @param {string[]} names
 */
function rulesOf(schema, names) {
  return names.filter((name) => schema[name] !== undefined).map((name) => `${name} ${words(schema[name])}`).join(", ");
}

/** @param {FieldPlace} place @returns {Field} */
function textField(place) {
  const { schema, required } = place;
  const long = schema.maxLength > 200 || schema.format === "textarea";
  const type = { email: "email", uri: "url", url: "url", date: "date" }[String(schema.format)] ?? "text";
  const input = long ? el("textarea", { rows: 3 }) : el("input", { type, autocomplete: "off", spellcheck: "false" });
  if (place.complete && !long) addCompletion(/** @type {HTMLInputElement} */ (input), place.label, place.complete);
  if (typeof schema.default === "string") input.value = schema.default;
  input.addEventListener("input", place.changed);
  // An empty field is an absent value. Whoever needs an empty text writes it in the JSON.
  let empty = false;
  const get = () => (input.value !== "" ? input.value : empty ? "" : undefined);
  input.addEventListener("input", () => (empty = false));
  return {
    element: labelled(place, input, rulesOf(schema, ["format", "minLength", "maxLength", "pattern"])),
    get,
    set: (value) => {
      empty = value === "";
      input.value = value === undefined || value === null ? "" : words(value);
    },
    problem: () => {
      const value = get();
      if (value === undefined) return required ? `${place.label || "the value"} is required` : null;
      if (value.length < schema.minLength) return `${place.label} is shorter than ${schema.minLength}`;
      if (value.length > schema.maxLength) return `${place.label} is longer than ${schema.maxLength}`;
      return null;
    },
  };
}

/**
 * Offers what the server suggests for an argument.
 * @param {HTMLInputElement} input
 * @param {string} argument
 * @param {Completer} complete
 */
function addCompletion(input, argument, complete) {
  lastId += 1;
  const list = el("datalist", { id: `values-${lastId}` });
  attribute(input, "list", list.id);
  let timer = 0;
  const ask = () => {
    clearTimeout(timer);
    timer = window.setTimeout(async () => {
      const asked = input.value;
      const values = await complete(argument, asked).catch(() => []);
      if (input.value === asked) list.replaceChildren(...values.slice(0, 100).map((value) => el("option", { value })));
    }, 150);
  };
  input.addEventListener("input", ask);
  input.addEventListener("focus", () => {
    if (!list.isConnected) input.after(list);
    ask();
  });
}

/** @param {FieldPlace} place @param {string} type @returns {Field} */
function numberField(place, type) {
  const { schema, required } = place;
  const input = el("input", { type: "text", inputmode: type === "integer" ? "numeric" : "decimal", autocomplete: "off", class: "number" });
  if (typeof schema.default === "number" || isExactNumber(schema.default)) input.value = words(schema.default);
  input.addEventListener("input", place.changed);
  const get = () => {
    const text = input.value.trim();
    if (text === "") return undefined;
    // The text of a number is sent as it is: JavaScript cannot hold all of them.
    if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return exactNumber(text);
    const value = Number(text);
    return Number.isFinite(value) ? value : text;
  };
  return {
    element: labelled(place, input, [type, rulesOf(schema, ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])].filter(Boolean).join(", ")),
    get,
    set: (value) => (input.value = value === undefined || value === null ? "" : words(value)),
    problem: () => {
      const given = get();
      const name = place.label || "the value";
      if (given === undefined) return required ? `${name} is required` : null;
      if (typeof given !== "number" && !isExactNumber(given)) return `${name} is not a number`;
      const value = numberOf(given);
      if (type === "integer" && Number.isFinite(value) && !Number.isInteger(value)) return `${name} is not a whole number`;
      if (value < schema.minimum || value <= schema.exclusiveMinimum) return `${name} is too small`;
      if (value > schema.maximum || value >= schema.exclusiveMaximum) return `${name} is too large`;
      return null;
    },
  };
}

/** @param {FieldPlace} place @returns {Field} */
function booleanField(place) {
  return choiceField({ ...place, schema: { ...place.schema, enum: [true, false], enumNames: ["true", "false"] } });
}

/** @param {FieldPlace} place @returns {Field} */
function choiceField(place) {
  const { schema, required } = place;
  const choices = choicesOf(schema) ?? [];
  const select = el("select", null, el("option", { value: "" }, "(not set)"), choices.map(([, title], index) => el("option", { value: index }, title)));
  /** @param {Json} value */
  const set = (value) => {
    const index = choices.findIndex(([choice]) => JSON.stringify(choice) === JSON.stringify(value));
    select.value = value === undefined || index < 0 ? "" : String(index);
  };
  set(schema.default ?? (required && choices.length === 1 ? choices[0][0] : undefined));
  select.addEventListener("change", place.changed);
  return {
    element: labelled(place, select, ""),
    get: () => (select.value === "" ? undefined : choices[Number(select.value)][0]),
    set,
    problem: () => (required && select.value === "" ? `${place.label || "the value"} is required` : null),
  };
}

/** @param {FieldPlace} place @returns {Field} */
function objectField(place) {
  const { schema, depth } = place;
  const required = Array.isArray(schema.required) ? schema.required : [];
  /** Members that the form does not show. @type {Record<string, Json>} */
  let others = {};
  const fields = Object.entries(schema.properties ?? {}).map(([name, each]) => {
    const field = makeField({ ...place, schema: each, required: required.includes(name), depth: depth + 1, label: name });
    return /** @type {[string, Field]} */ ([name, field]);
  });
  const members = isObject(schema.additionalProperties) ? memberRows(place) : null;
  const body = [...fields.map(([, field]) => field.element), ...(members ? [members.element] : [])];
  const legend = typeof schema.description === "string" && depth > 0 ? el("span", { class: "hint" }, schema.description) : null;
  const element = depth === 0 ? el("div", { class: "object" }, body.length ? body : el("p", { class: "facts" }, "No arguments.")) : el("fieldset", null, el("legend", null, place.label, place.required ? " *" : ""), legend, ...body);
  return {
    element,
    get: () => {
      /** @type {[string, Json][]} */
      const known = [];
      for (const [name, field] of fields) {
        const value = field.get();
        if (value !== undefined) known.push([name, value]);
      }
      const extra = members ? members.get() : Object.entries(others);
      if (known.length + extra.length === 0 && !place.required) return undefined;
      // A member named __proto__ is a member like any other.
      return Object.fromEntries([...known, ...extra]);
    },
    set: (value) => {
      const object = isObject(value) ? value : {};
      others = Object.fromEntries(Object.entries(object).filter(([name]) => !fields.some(([known]) => known === name)));
      members?.set(Object.entries(others));
      for (const [name, field] of fields) field.set(Object.hasOwn(object, name) ? object[name] : undefined);
    },
    problem: () => {
      const present = place.required || fields.some(([, field]) => field.get() !== undefined) || (members?.get() ?? []).length > 0;
      if (!present) return null;
      for (const [, field] of fields) {
        const problem = field.problem();
        if (problem) return problem;
      }
      return members?.problem(fields.map(([name]) => name)) ?? null;
    },
  };
}

/**
 * Rows of a name and a value, for members that the schema does not name.
 * @param {FieldPlace} place the place of their object
 */
function memberRows(place) {
  const schema = place.schema.additionalProperties;
  /** @type {{name: HTMLInputElement, field: Field}[]} */
  let rows = [];
  const list = el("div", { class: "array" });
  /** @param {string} name @param {Json} value */
  const add = (name, value) => {
    const input = el("input", { type: "text", autocomplete: "off", spellcheck: "false", class: "member-name", value: name, "aria-label": `Name of a member of ${place.label || "the value"}` });
    const field = makeField({ ...place, schema, required: true, depth: place.depth + 1, label: "" });
    if (value !== undefined) field.set(value);
    const row = { name: input, field };
    const element = el("div", { class: "array-item member" }, input, field.element, button("✕", () => {
      rows = rows.filter((each) => each !== row);
      element.remove();
      place.changed();
    }, { class: "quiet", "aria-label": `Remove ${name || "the member"}` }));
    input.addEventListener("input", place.changed);
    rows.push(row);
    list.append(element);
    return input;
  };
  const adder = button("Add a member", () => {
    const input = add("", undefined);
    place.changed();
    input.focus();
  }, { "aria-label": `Add a member to ${place.label || "the value"}` });
  return {
    element: el("div", { class: "members-of" }, list, adder),
    /** @returns {[string, Json][]} */
    get: () => rows.filter(({ name, field }) => name.value !== "" || field.get() !== undefined).map(({ name, field }) => [name.value, field.get() ?? null]),
    /** @param {[string, Json][]} members */
    set: (members) => {
      rows = [];
      list.replaceChildren();
      members.slice(0, MOST_FIELDS).forEach(([name, value]) => add(name, value));
    },
    /** @param {string[]} known */
    problem: (known) => {
      const names = rows.map(({ name }) => name.value);
      const twice = names.find((name, index) => known.includes(name) || names.indexOf(name) !== index);
      if (twice !== undefined) return `two members are named ${JSON.stringify(twice)}`;
      return rows.map(({ field }) => field.problem()).find(Boolean) ?? null;
    },
  };
}

/**
 * A choice between several schemas, and the field of the chosen one.
 * @param {FieldPlace} place
 * @param {Json[]} variants
 * @returns {Field}
 */
function variantField(place, variants) {
  const { schema, root, required } = place;
  lastId += 1;
  const none = el("option", { value: "" }, "(not set)");
  const select = el("select", { class: "variant", "aria-label": `Kind of ${place.label || "the value"}` }, none, variants.map((each, index) => el("option", { value: index }, variantName(each, index))));
  const body = el("div", { class: "variant-body" });
  /** @type {Field | null} */
  let field = null;
  /** A value that no variant fits. @type {Json} */
  let kept;
  /** @param {number} index @param {Json} value */
  const choose = (index, value) => {
    select.value = index < 0 ? "" : String(index);
    field = index < 0 ? null : makeField({ ...place, schema: variants[index], required: true, depth: place.depth + 1, label: place.label });
    kept = field ? undefined : value;
    setText(none, kept === undefined ? "(not set)" : "(as in the JSON)");
    if (field && value !== undefined) field.set(value);
    replace(body, field?.element);
  };
  /** @param {Json} value */
  const set = (value) => {
    if (value === undefined) {
      choose(required ? 0 : -1, undefined);
      return;
    }
    const points = variants.map((each) => fit(each, value, root, 3));
    const best = Math.max(...points);
    const chosen = select.value === "" ? -1 : Number(select.value);
    const index = best < 0 ? -1 : points[chosen] === best ? chosen : points.indexOf(best);
    // The field that is there stays, with the place of the cursor.
    if (field && index === chosen && index >= 0) field.set(value);
    else choose(index, value);
  };
  set(schema.default);
  select.addEventListener("change", () => {
    const before = field?.get();
    const index = select.value === "" ? -1 : Number(select.value);
    const properties = index < 0 || !isObject(variants[index].properties) ? {} : variants[index].properties;
    // Members that both variants have keep their values.
    const shared = isObject(before) ? Object.entries(before).filter(([name, value]) => Object.hasOwn(properties, name) && fit(properties[name], value, root, 3) >= 0) : [];
    choose(index, undefined);
    if (shared.length) field?.set({ ...field.get(), ...Object.fromEntries(shared) });
    place.changed();
  });
  const hint = typeof schema.description === "string" && place.depth > 0 ? el("span", { class: "hint" }, schema.description) : null;
  const legend = place.label === "" ? null : el("legend", null, place.label, required ? " *" : "");
  return {
    element: el("fieldset", { class: "variants" }, legend, hint, select, body),
    get: () => (field ? field.get() : kept),
    set,
    problem: () => (field ? field.problem() : required && kept === undefined ? `${place.label || "the value"} is required` : null),
  };
}

/**
 * Returns the schemas of the first items of an array, each at its place.
 * @param {Json} schema
 * @returns {Json[]}
 */
function tupleOf(schema) {
  const items = schema.prefixItems ?? schema.items;
  return Array.isArray(items) && items.length <= MOST_FIELDS ? items : [];
}

/** @param {FieldPlace} place @returns {Field} */
function arrayField(place) {
  const { schema, root } = place;
  const tuple = tupleOf(schema);
  const rest = schema.prefixItems === undefined && tuple.length ? schema.additionalItems : schema.items;
  const items = resolved(rest, root);
  const choices = isObject(items) && tuple.length === 0 ? choicesOf(items) : null;
  if (choices) return checkboxesField(place, choices);
  /** @type {Field[]} */
  let fields = [];
  let given = false;
  const list = el("div", { class: "array" });
  /** @param {Json} value */
  const add = (value) => {
    const fixed = fields.length < tuple.length;
    const own = fixed ? tuple[fields.length] : items;
    const field = makeField({ ...place, schema: own, required: true, depth: place.depth + 1, label: `${place.label} ${fields.length + 1}` });
    if (value !== undefined) field.set(value);
    const row = el("div", { class: "array-item" }, field.element, fixed ? null : button("✕", () => {
      fields = fields.filter((each) => each !== field);
      row.remove();
      place.changed();
    }, { class: "quiet", "aria-label": `Remove ${place.label}` }));
    fields.push(field);
    list.append(row);
  };
  /** @param {Json} value */
  const set = (value) => {
    given = Array.isArray(value);
    fields = [];
    list.replaceChildren();
    if (Array.isArray(value)) value.slice(0, MOST_FIELDS).forEach(add);
    while (fields.length < tuple.length) add(undefined);
  };
  set(schema.default);
  const adder = !isObject(items) && tuple.length ? null : button("Add", () => {
    given = true;
    add(undefined);
    place.changed();
    list.querySelector(".array-item:last-child input, .array-item:last-child select, .array-item:last-child textarea")?.dispatchEvent(new Event("focus"));
  }, { "aria-label": `Add ${place.label}` });
  const get = () => {
    const values = fields.map((field) => field.get());
    // The places of a tuple are there before they have a value.
    while (values.length <= tuple.length && values.length > 0 && values[values.length - 1] === undefined) values.pop();
    return values.length === 0 && !given && !place.required ? undefined : values.map((value) => value ?? null);
  };
  const hint = [typeof schema.description === "string" ? schema.description : "", rulesOf(schema, ["minItems", "maxItems", "uniqueItems"])].filter(Boolean).join(" · ");
  return {
    element: el("fieldset", null, el("legend", null, place.label, place.required ? " *" : ""), hint ? el("span", { class: "hint" }, hint) : null, list, adder),
    get,
    set,
    problem: () => {
      if (get() === undefined) return null;
      if (fields.length < schema.minItems && (place.required || given)) return `${place.label} needs at least ${schema.minItems}`;
      if (fields.length > schema.maxItems) return `${place.label} has more than ${schema.maxItems}`;
      return fields.map((field) => field.problem()).find(Boolean) ?? null;
    },
  };
}

/** @param {FieldPlace} place @param {[Json, string][]} choices @returns {Field} */
function checkboxesField(place, choices) {
  const { schema } = place;
  let given = false;
  const boxes = choices.map(() => el("input", { type: "checkbox" }));
  /** @param {Json} value */
  const set = (value) => {
    given = Array.isArray(value);
    boxes.forEach((box, index) => (box.checked = given && value.some((/** @type {Json} */ each) => JSON.stringify(each) === JSON.stringify(choices[index][0]))));
  };
  set(schema.default);
  boxes.forEach((box) => box.addEventListener("change", () => {
    given = true;
    place.changed();
  }));
  const get = () => {
    const chosen = choices.filter((_, index) => boxes[index].checked).map(([value]) => value);
    return chosen.length || given || place.required ? chosen : undefined;
  };
  const hint = [typeof schema.description === "string" ? schema.description : "", rulesOf(schema, ["minItems", "maxItems"])].filter(Boolean).join(" · ");
  const labels = choices.map(([, title], index) => el("label", { class: "check" }, boxes[index], ` ${title}`));
  return {
    element: el("fieldset", null, el("legend", null, place.label, place.required ? " *" : ""), hint ? el("span", { class: "hint" }, hint) : null, ...labels),
    get,
    set,
    problem: () => {
      const chosen = get() ?? [];
      if (chosen.length < schema.minItems && (place.required || given)) return `${place.label} needs at least ${schema.minItems}`;
      return chosen.length > schema.maxItems ? `${place.label} has more than ${schema.maxItems}` : null;
    },
  };
}

/** @param {FieldPlace} place @returns {Field} */
function jsonField(place) {
  const { schema, required } = place;
  const area = el("textarea", { class: "json", rows: 3, spellcheck: "false" });
  if (isObject(schema) && schema.default !== undefined) area.value = JSON.stringify(schema.default, null, 2);
  area.addEventListener("input", place.changed);
  const element = labelled({ ...place, schema: isObject(schema) ? schema : {} }, area, "JSON");
  // At the top level the JSON editor beside the form is the same.
  if (place.depth === 0) attribute(element, "data-json", "true");
  return {
    element,
    get: () => (area.value.trim() === "" ? undefined : parsed(area.value)),
    set: (value) => (area.value = value === undefined ? "" : JSON.stringify(value, null, 2)),
    problem: () => {
      if (area.value.trim() === "") return required && place.depth > 0 ? `${place.label} is required` : null;
      return parsed(area.value) === undefined ? `${place.label || "the value"} is not JSON` : null;
    },
  };
}

/**
 * Returns a form for arguments that are all texts: those of a prompt or a URI template.
 * @param {{name: string, description?: string, required?: boolean}[]} list
 * @param {Completer} complete
 */
export function textForm(list, complete) {
  const properties = Object.fromEntries(list.map((each) => [each.name, { type: "string", description: each.description }]));
  const required = list.filter((each) => each.required).map((each) => each.name);
  const form = new SchemaForm({ type: "object", properties, required }, { complete });
  append(form.element);
  return form;
}
