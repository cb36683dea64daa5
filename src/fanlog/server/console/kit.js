// All that pages are made of.
export * from "./api.js";
export * from "./dialog.js";
export * from "./dom.js";
export * from "./form.js";
export * from "./router.js";
export * from "./table.js";
export * from "./words.js";
