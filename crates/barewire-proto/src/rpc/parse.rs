//! Parses a frame into a message, a batch or an error. The members are read once; then one `match` over the members
//! that are present decides.

use super::invalid::{ErrorFault, MemberName, Rule, Shape};
use super::{Batch, Code, ErrorRef, Id, Invalid, Message, Notification, Params, Request, Response};
use crate::json::{self, Json, Kind, Place, Scanner, SyntaxError, Text, ValueSpan};

/// The default maximum nesting depth: the same as that of serde_json, which deserializes parameters and results.
pub const DEFAULT_DEPTH: usize = 128;

/// The content of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a frame is an object, an array or neither")]
pub enum Parsed<'a> {
    /// One message.
    Message(Message<'a>),
    /// An array whose elements are not parsed yet. The caller decides whether batches are allowed.
    Batch(Batch<'a>),
    /// The frame is not a valid message.
    Invalid(Invalid<'a>),
}

/// Parses a frame. A message that is nested deeper than `max_depth` levels is invalid; the outermost object is level 1.
///
/// ```
/// use barewire_proto::rpc::{DEFAULT_DEPTH, Message, Parsed, parse};
///
/// let frame = br#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#;
/// let Parsed::Message(Message::Request(request)) = parse(frame, DEFAULT_DEPTH) else { panic!() };
/// assert_eq!(request.method, "ping");
/// assert_eq!(request.id.as_str(), "1.0");
/// ```
pub fn parse(frame: &[u8], max_depth: usize) -> Parsed<'_> {
    let mut scanner = Scanner::new(frame, max_depth);
    let parsed = match scanner.peek() {
        Some(b'{') => parse_object(frame, &mut scanner, max_depth),
        Some(b'[') => Batch::scan(frame, &mut scanner, max_depth),
        _ => scanner.value().map(|value| {
            let rule = if scanner.bad_utf8().is_some() { Rule::BadUtf8 } else { Rule::NotAnObject };
            Parsed::Invalid(Invalid::shapeless(rule, scanner.bad_utf8().unwrap_or(value.start)))
        }),
    };
    match parsed.and_then(|parsed| scanner.end().map(|()| parsed)) {
        Ok(parsed) => parsed,
        Err(SyntaxError { at, expected }) => Parsed::Invalid(Invalid::shapeless(Rule::Syntax(expected), at)),
    }
}

fn parse_object<'a>(frame: &'a [u8], scanner: &mut Scanner<'a>, max_depth: usize) -> Result<Parsed<'a>, SyntaxError> {
    Ok(match Envelope::scan(frame, scanner)?.classify(max_depth) {
        Ok(message) => Parsed::Message(message),
        Err(invalid) => Parsed::Invalid(invalid),
    })
}

/// Parses an element of a batch, which [`Batch::scan`] has scanned before.
pub(super) fn element<'a>(
    frame: &'a [u8],
    scanner: &mut Scanner<'a>,
    max_depth: usize,
) -> Result<Message<'a>, Invalid<'a>> {
    let again = "the batch was scanned without an error before";
    scanner.forget_faults();
    if scanner.peek() == Some(b'{') {
        return Envelope::scan(frame, scanner).expect(again).classify(max_depth);
    }
    let value = scanner.value().expect(again);
    let rule = match (value.kind, scanner.bad_utf8()) {
        (_, Some(at)) => return Err(Invalid::shapeless(Rule::BadUtf8, at)),
        (Kind::Array, _) => Rule::NestedBatch,
        _ => Rule::NotAnObject,
    };
    Err(Invalid::shapeless(rule, value.start))
}

/// The members of a message object, and the faults that the scanner found in it.
struct Envelope<'a> {
    frame: &'a [u8],
    /// The offset of the opening brace.
    at: usize,
    members: [Option<ValueSpan>; 6],
    /// For each member, whether it occurs more than once.
    repeated: [bool; 6],
    /// The first member that is repeated, and the offset of its second occurrence.
    first_duplicate: Option<(MemberName, usize)>,
    too_deep: Option<usize>,
    bad_utf8: Option<usize>,
}

/// The names of the members as bytes, for [`json::match_name`].
const MEMBER_NAMES: [(&[u8], MemberName); 6] = {
    let [jsonrpc, id, method, params, result, error] = MemberName::ALL;
    [name_entry(jsonrpc), name_entry(id), name_entry(method), name_entry(params), name_entry(result), name_entry(error)]
};

const fn name_entry(name: MemberName) -> (&'static [u8], MemberName) {
    (name.as_str().as_bytes(), name)
}

impl<'a> Envelope<'a> {
    fn scan(frame: &'a [u8], scanner: &mut Scanner<'a>) -> Result<Self, SyntaxError> {
        let at = scanner.at();
        let mut members = [None; 6];
        let (mut repeated, mut first_duplicate) = ([false; 6], None);
        scanner.enter();
        let mut place = Place::First;
        while let Some(name) = scanner.member(place)? {
            let known = json::match_name(&frame[name.start + 1..name.end - 1], &MEMBER_NAMES);
            let value = scanner.value()?;
            if let Some(member) = known {
                let slot = &mut members[member as usize];
                if slot.is_some() {
                    repeated[member as usize] = true;
                    first_duplicate.get_or_insert((member, name.start));
                }
                *slot = Some(value);
            }
            place = Place::Next;
        }
        let (too_deep, bad_utf8) = (scanner.too_deep(), scanner.bad_utf8());
        Ok(Self { frame, at, members, repeated, first_duplicate, too_deep, bad_utf8 })
    }

    /// Decides by the members that are present which kind of message the object is. A member whose value is null counts
    /// as present.
    fn classify(&self, max_depth: usize) -> Result<Message<'a>, Invalid<'a>> {
        use MemberName::{Error, Id as IdName, Jsonrpc, Method, Params as ParamsName, Result as ResultName};

        if let Some(at) = self.bad_utf8 {
            return Err(self.refuse(Rule::BadUtf8, at));
        }
        if let Some((name, at)) = self.first_duplicate {
            return Err(self.refuse(Rule::Duplicate(name), at));
        }
        match self.get(Jsonrpc) {
            None => return Err(self.refuse(Rule::NoVersion, self.at)),
            Some(version) if version.as_bytes() == br#""2.0""# => {}
            // The version can be written with escapes.
            Some(version) if Text::from_json(version).is_some_and(|version| version == "2.0") => {}
            Some(_) => return Err(self.refuse_at(Rule::BadVersion, Jsonrpc)),
        }
        let message = match (self.get(Method), self.get(ResultName), self.get(Error), self.id()) {
            (Some(_), Some(_), _, _) => return Err(self.refuse_at(Rule::MethodAndOutcome, ResultName)),
            (Some(_), None, Some(_), _) => return Err(self.refuse_at(Rule::MethodAndOutcome, Error)),
            (None, Some(_), Some(_), _) => return Err(self.refuse_at(Rule::ResultAndError, Error)),
            (None, None, None, _) => return Err(self.refuse(Rule::NothingToDo, self.at)),
            (None, None, Some(error), IdMember::Absent | IdMember::Null) => Message::OrphanError(self.error(error)?),
            (_, _, _, IdMember::Null) => return Err(self.refuse_at(Rule::NullId, IdName)),
            (_, _, _, IdMember::Bad) => return Err(self.refuse_at(Rule::BadId, IdName)),
            (None, Some(_), None, IdMember::Absent) => return Err(self.refuse(Rule::NoId, self.at)),
            (None, Some(result), None, IdMember::Valid(id)) => Message::Response(Response { id, outcome: Ok(result) }),
            (None, None, Some(error), IdMember::Valid(id)) => {
                Message::Response(Response { id, outcome: Err(self.error(error)?) })
            }
            (Some(method), None, None, id) => {
                let Some(method) = Text::from_json(method) else {
                    return Err(self.refuse_at(Rule::BadMethod, Method));
                };
                let params = match self.get(ParamsName).map(Params::from_json) {
                    Some(None) => return Err(self.refuse_at(Rule::BadParams, ParamsName)),
                    Some(params) => params,
                    None => None,
                };
                match id {
                    IdMember::Valid(id) => Message::Request(Request { id, method, params }),
                    _ => Message::Notification(Notification { method, params }),
                }
            }
        };
        // The depth is checked last, so that a message that is refused as too deep has no other fault.
        if let Some(at) = self.too_deep {
            return Err(self.refuse(Rule::TooDeep { limit: max_depth }, at));
        }
        Ok(message)
    }

    fn error(&self, error: Json<'a>) -> Result<ErrorRef<'a>, Invalid<'a>> {
        let start = self.members[MemberName::Error as usize].map_or(self.at, |value| value.start);
        let refuse = |fault, at| Err(self.refuse(Rule::BadError(fault), start + at));
        if error.kind() != Kind::Object {
            return refuse(ErrorFault::NotAnObject, 0);
        }
        let (mut code, mut message, mut data) = (None, None, None);
        for member in error.members() {
            let slot = match () {
                () if member.name == "code" => &mut code,
                () if member.name == "message" => &mut message,
                () if member.name == "data" => &mut data,
                () => continue,
            };
            if slot.replace((member.value, member.value_at)).is_some() {
                return refuse(ErrorFault::Duplicate, member.name_at);
            }
        }
        let Some((code, at)) = code else { return refuse(ErrorFault::NoCode, 0) };
        let code = match code.kind() {
            Kind::Number => json::integer(code.as_bytes()),
            _ => None,
        };
        let Some(code) = code else { return refuse(ErrorFault::BadCode, at) };
        let Some((message, at)) = message else { return refuse(ErrorFault::NoMessage, 0) };
        let Some(message) = Text::from_json(message) else { return refuse(ErrorFault::BadMessage, at) };
        Ok(ErrorRef { code: Code::received(code), message, data: data.map(|(data, _)| data) })
    }

    fn get(&self, name: MemberName) -> Option<Json<'a>> {
        self.members[name as usize].map(|value| Json::scanned(self.frame, value))
    }

    fn id(&self) -> IdMember<'a> {
        match self.get(MemberName::Id) {
            None => IdMember::Absent,
            Some(id) if id.kind() == Kind::Null => IdMember::Null,
            Some(id) => Id::from_json(id).map_or(IdMember::Bad, IdMember::Valid),
        }
    }

    fn refuse_at(&self, rule: Rule, name: MemberName) -> Invalid<'a> {
        self.refuse(rule, self.members[name as usize].map_or(self.at, |value| value.start))
    }

    /// Returns the refusal, with the id and method if they are readable: neither repeated nor invalid UTF-8.
    #[cold]
    fn refuse(&self, rule: Rule, at: usize) -> Invalid<'a> {
        let readable = |name: MemberName| {
            let value = self.members[name as usize]?;
            if self.repeated[name as usize] { None } else { Json::parse(&self.frame[value.start..value.end]).ok() }
        };
        let has = |name: MemberName| self.members[name as usize].is_some();
        let id = readable(MemberName::Id).and_then(Id::from_json);
        let method = readable(MemberName::Method).and_then(Text::from_json);
        let outcome = has(MemberName::Result) || has(MemberName::Error);
        let shape = match (has(MemberName::Method), has(MemberName::Id), outcome) {
            (false, _, true) => Shape::Response,
            (true, false, false) if method.is_some() => Shape::Notification,
            _ => Shape::Request,
        };
        Invalid { rule, at, id, method, shape }
    }
}

/// The member `id`. Absent, null and invalid are three different cases.
enum IdMember<'a> {
    Absent,
    Null,
    Bad,
    Valid(Id<'a>),
}
