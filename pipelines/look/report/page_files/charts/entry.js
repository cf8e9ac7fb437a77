// What the page of a report draws with: Vega-Lite, and Vega with an interpreter in place of the code that it would make.
export { View, Warn, parse } from "vega";
export { expressionInterpreter } from "vega-interpreter";
export { compile } from "vega-lite";
