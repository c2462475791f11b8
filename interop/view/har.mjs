// A HAR file on stdin -> exit code 0 if it fits the schema of HAR 1.2, else 1, with what does not fit.
import { readFileSync } from "node:fs";
import validator from "har-validator";

try {
  await validator.har(JSON.parse(readFileSync(0, "utf8")));
} catch (error) {
  if (!error.errors) throw error;
  console.log(error.errors.map(({ dataPath, message }) => `${dataPath} ${message}`).join("; "));
  process.exitCode = 1;
}
