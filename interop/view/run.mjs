// Runs the tests of the page: node run.mjs [WORD...]; a word chooses the tests whose name contains it.
import { runTests } from "./harness.mjs";
import "./source.mjs";
import "./flows.mjs";
import "./urls.mjs";
import "./access.mjs";
import "./hostile.mjs";
import "./looks.mjs";
import "./drive.mjs";
import "./forms.mjs";
import "./file.mjs";
import "./filters.mjs";
import "./live.mjs";
import "./lost.mjs";
import "./schemas.mjs";
import "./large.mjs";

// A test that fails can leave a program open, which must not keep this one from ending.
process.exit((await runTests(process.argv.slice(2))) ? 1 : 0);
