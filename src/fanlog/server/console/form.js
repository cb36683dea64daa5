// Fields. Each is a name, a label, a kind (text unless said) and more of it.

import { h } from "./dom.js";
import { pairsOf } from "./words.js";

let numbers = 0;
const TYPES = { mono: "text", time: "datetime-local", check: "checkbox" };

function control({ name, kind, value, options, suggestions, rows, required, placeholder, disabled, min, max, hint }, id) {
	const common = { id, name, required, placeholder, disabled, "aria-describedby": hint && `${id}-hint`, autocomplete: "off", spellcheck: "false", class: ["mono", "code"].includes(kind) && "mono" };
	if (kind === "select") {
		const select = h("select", common, options.map((option) => {
			const [key, words] = Array.isArray(option) ? option : [option, option];
			return h("option", { value: key }, words);
		}));
		select.value = value ?? select.value;
		return select;
	}
	if (["area", "code"].includes(kind)) return h("textarea", { ...common, rows: rows ?? 3, value: value ?? "" });
	const input = h("input", { ...common, type: TYPES[kind] ?? kind, list: suggestions && `${id}-list`, min, max, step: kind === "time" && 1, value: value ?? "" });
	if (kind === "check") input.checked = Boolean(value);
	return input;
}

export const nameField = ["id", "Name", "mono", { required: true }];

export const labelsField = (labels, name = "labels", label = "Labels") => [name, label, "code", { value: pairsOf(labels).join("\n"), hint: "One name=value a line." }];

/** `show(values)` of a field tells whether it is asked for. */
export function form(fields, changed = () => {}) {
	const made = fields.map(([name, label, kind = "text", more = {}]) => {
		const id = `f-${++numbers}`;
		const field = { name, kind, ...more };
		const input = control(field, id);
		const parts = [h("label", { for: id }, label), input];
		const row = h("div", { class: `field is-${field.wide ? "code" : kind}` }, kind === "check" ? parts.reverse() : parts,
			field.hint && h("small", { id: `${id}-hint` }, field.hint),
			field.suggestions && h("datalist", { id: `${id}-list` }, field.suggestions.map((value) => h("option", { value }))));
		return { field, input, row };
	});
	const valueOf = ({ field: { kind }, input }) => (kind === "check" ? input.checked : ["area", "code"].includes(kind) ? input.value : input.value.trim());
	const values = () => Object.fromEntries(made.map((one) => [one.field.name, valueOf(one)]));
	const show = () => {
		const now = values();
		for (const { field, input, row } of made) {
			row.hidden = Boolean(field.show && !field.show(now));
			input.disabled = row.hidden || Boolean(field.disabled);
		}
		return now;
	};
	const element = h("div.fields", { oninput: () => changed(show()), onchange: () => changed(show()) }, made.map(({ row }) => row));
	show();
	return { element, values, input: (name) => made.find(({ field }) => field.name === name).input };
}
