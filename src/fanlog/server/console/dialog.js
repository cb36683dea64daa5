// Questions before an act. The server says what it will do, in a sentence that changes with the fields.

import { button, h, soon, tell } from "./dom.js";
import { form, nameField } from "./form.js";
import { post, remove } from "./api.js";
import { idOf, pathOf } from "./words.js";

export function open(title, ...children) {
	const id = `d-${++numbers}`;
	const dialog = h("dialog", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
	dialog.addEventListener("close", () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
	return dialog;
}
let numbers = 0;

export function inform(title, ...children) {
	const dialog = open(title, h("div.stack", ...children, h("div.choices", button("Close", () => dialog.close(), "primary"))));
	dialog.classList.add("large");
	dialog.addEventListener("click", (event) => { if (event.target.closest("a[href^='#']")) dialog.close(); });
}

/** What the server is to estimate; nothing while `place` is not filled in. */
export const will = (act, resource, place = () => ({})) => (values) => {
	const at = place(values);
	return at && { act, resource, ...at };
};

/** Asks for the name before something is deleted for good. */
export const deleting = (kind, name, more) => ask({ title: `Delete ${idOf(name)}?`, label: `Delete the ${kind}`, danger: true, confirmName: idOf(name),
	done: `The ${kind} is gone.`, act: () => remove(pathOf(name)), ...more });

export const creating = (kind, fields, act, more) => ask({ title: `Create ${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`, label: "Create", done: `The ${kind} is there.`, fields: [nameField, ...fields], act, ...more });

/** Resolves with what `act` gave; with undefined when it is cancelled. */
export function ask({ title, fields = [], act, label = title.split(/[ ?]/)[0], danger, lead, estimate, done, confirmName }) {
	return new Promise((resolve) => {
		const wrong = h("p.failure", { role: "alert", hidden: true });
		const will = h("p", { class: danger ? "will danger" : "will", role: "status", hidden: !estimate }, "Counting what it would do…");
		const asked = confirmName ? [...fields, ["confirmed", `Type ${confirmName} to go on`, "text", { required: true }]] : fields;
		let [turn, counted, counting] = [0];
		function count(values) {
			const asks = estimate(values);
			const key = JSON.stringify(asks);
			if (!asks || key === counted || !dialog.open) return;
			counted = key;
			const mine = ++turn;
			counting = post("/v1/acts:estimate", asks).then(({ sentence }) => (/[.!?]$/.test(sentence) ? sentence : `${sentence[0].toUpperCase()}${sentence.slice(1)}.`), (error) => error.message)
				.then((words) => { if (mine === turn) will.textContent = words; });
		}
		const later = soon(count);
		const made = form(asked, (values) => estimate && later(values));
		const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, label);
		let result;
		const body = h("form", { onsubmit: async (event) => {
			event.preventDefault();
			wrong.hidden = true;
			const values = made.values();
			if (confirmName && values.confirmed !== confirmName) return fail(`That is not ${confirmName}.`);
			go.disabled = true;
			// What would be done is told before it is.
			if (estimate) count(values);
			await counting;
			try {
				result = (await act(values)) ?? {};
				dialog.close();
				if (done) tell(typeof done === "function" ? done(result) : done);
			} catch (error) { fail(error.message); } finally { go.disabled = false; }
		} }, lead && h("p", lead), made.element, will, wrong,
			h("div.choices", button("Cancel", () => dialog.close(), "quiet"), go));
		function fail(sentence) { wrong.textContent = sentence; wrong.hidden = false; }
		const dialog = open(title, body);
		dialog.addEventListener("close", () => resolve(result));
		if (estimate) count(made.values());
	});
}
