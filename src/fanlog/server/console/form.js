// Fields with labels, hints and one place for what is wrong.

import { h } from "./dom.js";

let numbers = 0;

function control(field, id) {
	const common = { id, name: field.name, required: field.required, placeholder: field.placeholder,
		disabled: field.disabled, "aria-describedby": field.hint ? `${id}-hint` : null, autocomplete: "off", spellcheck: "false" };
	if (field.type === "select") {
		const select = h("select", common, field.options.map((option) => {
			const [value, words] = Array.isArray(option) ? option : [option, option];
			return h("option", { value }, words);
		}));
		select.value = field.value ?? select.value;
		return select;
	}
	if (field.type === "textarea") return h("textarea", { ...common, rows: field.rows ?? 3, class: field.mono ? "mono" : null, value: field.value ?? "" });
	if (field.type === "checkbox") {
		const box = h("input", { ...common, type: "checkbox" });
		box.checked = Boolean(field.value);
		return box;
	}
	return h("input", { ...common, type: field.type ?? "text", list: field.suggestions && `${id}-list`, min: field.min, max: field.max,
		step: field.step, pattern: field.pattern, class: field.mono ? "mono" : null, value: field.value ?? "" });
}

/** `show(values)` of a field tells whether it is asked for at all. */
export function form(fields, changed = () => {}) {
	const made = fields.map((field) => {
		const id = `f-${++numbers}`;
		const input = control(field, id);
		const label = h("label", { for: id }, field.label);
		const hint = field.hint && h("small", { id: `${id}-hint` }, field.hint);
		const list = field.suggestions && h("datalist", { id: `${id}-list` }, field.suggestions.map((value) => h("option", { value })));
		const row = h("div", { class: `field ${field.type ?? "text"} ${field.wide ? "wide" : ""}` },
			...(field.type === "checkbox" ? [input, label] : [label, input]), hint, list);
		return { field, input, row };
	});
	const values = () => Object.fromEntries(made.map(({ field, input }) =>
		[field.name, field.type === "checkbox" ? input.checked : field.type === "textarea" ? input.value : input.value.trim()]));
	const show = () => {
		const now = values();
		for (const { field, input, row } of made) {
			row.hidden = Boolean(field.show && !field.show(now));
			input.disabled = row.hidden || Boolean(field.disabled);
		}
		return now;
	};
	const element = h("div", { class: "fields", oninput: () => changed(show()), onchange: () => changed(show()) }, made.map(({ row }) => row));
	show();
	return { element, values, input: (name) => made.find(({ field }) => field.name === name).input };
}
