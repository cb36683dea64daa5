// Questions before an act. The sentence that says what it will do comes from the server, and changes
// with the fields.

import { button, h, tell } from "./dom.js";
import { form } from "./form.js";
import { post } from "./api.js";

export function open(title, ...children) {
	const id = `d-${++numbers}`;
	const dialog = h("dialog", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
	dialog.addEventListener("close", () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
	return dialog;
}
let numbers = 0;

/** Something to read, with nothing to decide. A link out of it closes it. */
export function inform(title, ...children) {
	const dialog = open(title, h("div", { class: "stack" }, ...children, h("div", { class: "choices" }, button("Close", () => dialog.close(), "primary"))));
	dialog.classList.add("large");
	dialog.addEventListener("click", (event) => { if (event.target.closest("a[href^='#']")) dialog.close(); });
}

/** Resolves when it is done, with what `act` gave; with undefined when it is cancelled. */
export function ask({ title, fields = [], act, label, danger = false, lead, estimate, done, confirmName }) {
	return new Promise((resolve) => {
		const wrong = h("p", { class: "failure", role: "alert", hidden: true });
		const will = h("p", { class: danger ? "will danger" : "will", role: "status", hidden: !estimate }, "Counting what it would do…");
		const asked = confirmName ? [...fields, { name: "confirmed", label: `Type ${confirmName} to go on`, required: true }] : fields;
		let turn = 0;
		let counted;
		let soon = 0;
		async function count(values) {
			const asks = estimate(values);
			if (JSON.stringify(asks) === counted) return;
			counted = JSON.stringify(asks);
			const mine = ++turn;
			try {
				const { sentence } = await post("/v1/acts:estimate", asks);
				if (mine === turn) will.textContent = /[.!?]$/.test(sentence) ? sentence : `${sentence[0].toUpperCase()}${sentence.slice(1)}.`;
			} catch (error) {
				if (mine === turn) will.textContent = error.message;
			}
		}
		const made = form(asked, (values) => {
			if (!estimate) return;
			clearTimeout(soon);
			soon = setTimeout(() => count(values), 250);
		});
		const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, label);
		let result;
		const body = h("form", { onsubmit: async (event) => {
			event.preventDefault();
			wrong.hidden = true;
			clearTimeout(soon);
			const values = made.values();
			if (confirmName && values.confirmed !== confirmName) return fail(`That is not ${confirmName}.`);
			go.disabled = true;
			try {
				result = (await act(values)) ?? {};
				dialog.close();
				if (done) tell(typeof done === "function" ? done(result) : done);
			} catch (error) { fail(error.message); } finally { go.disabled = false; }
		} }, lead && h("p", {}, lead), made.element, will, wrong,
			h("div", { class: "choices" }, button("Cancel", () => dialog.close(), "quiet"), go));
		function fail(sentence) { wrong.textContent = sentence; wrong.hidden = false; }
		const dialog = open(title, body);
		dialog.addEventListener("close", () => resolve(result));
		if (estimate) count(made.values());
	});
}
