// Tables: one of rows at hand, and one of a list that the server searches, sorts and pages.

import { every, failure, h } from "./dom.js";
import { get } from "./api.js";
import { age, count } from "./words.js";

// Columns: the name of a row, a number, other things, and what can be done.
// What a cell has is a function of the row, or one of its fields and how it is shown.
const column = (usual, more) => (label, cell, shown = usual, order) =>
	({ label, order, cell: typeof cell === "string" ? (row) => shown(row[cell]) : cell, ...more });
const text = (value) => value ?? "";
export const rowName = column(text, { header: true });
export const number = column(count, { kind: "number" });
export const cell = column(text);
export const cut = (label, text, kind = "") => cell(label, (row) => h(`code.cut${kind}`, text(row) ?? ""));
export const waiting = (order) => number("Waiting", (row) => `${row.backlogEstimated ? "≈ " : ""}${count(row.backlog)}`, null, order);
export const oldest = (order) => number("Oldest", (row) => (row.oldestUnackedAge ? age(row.oldestUnackedAge) : "–"), null, order);
export const fill = (label, cell) => ({ label, cell, kind: "fill" });
export const rowActs = (cell) => ({ label: h("span.hidden", "Actions"), cell, kind: "acts" });

const cellOf = (column, row) =>
	h(column.header ? "th" : "td", { scope: column.header ? "row" : null, class: column.kind }, column.cell(row));

const bodyOf = (columns, rows) => rows.map((row) => h("tr", columns.map((column) => cellOf(column, row))));

const framed = (caption, table) =>
	h("div.scroll", { role: "region", "aria-label": `${caption}, a table`, tabindex: "0" }, table);

export function table(caption, columns, rows, nothing) {
	if (!rows.length && nothing) return nothing;
	columns = columns.filter(Boolean);
	return framed(caption, h("table", h("caption.hidden", caption),
		h("thead", h("tr", columns.map((column) => h("th", { scope: "col", class: column.kind }, column.label)))),
		h("tbody", bodyOf(columns, rows))));
}

/** `path` answers with `field`, `total` and `nextPageToken`; columns with `order` can be sorted by. */
export function searchTable({ caption, path, field, parameters = {}, columns, order, nothing, signal, size = 50, placeholder, onrows }) {
	let contains = "";
	let orderBy = order;
	let tokens = [""];
	let turn = 0;
	const body = h("tbody");
	const heads = columns.map((column) => {
		const words = column.order ? h("button", { type: "button", class: "sort", onclick: () => sort(column.order) }, column.label) : column.label;
		return h("th", { scope: "col", class: column.kind }, words);
	});
	const state = h("p.note", { role: "status" });
	const before = h("button", { type: "button", onclick: () => { tokens.pop(); load(); } }, "Previous");
	const after = h("button", { type: "button", onclick: () => { tokens.push(after.dataset.token); load(); } }, "Next");
	const search = h("input", { type: "search", placeholder, "aria-label": placeholder, autocomplete: "off", spellcheck: "false" });
	const frame = framed(caption, h("table", h("caption.hidden", caption), h("thead", h("tr", heads)), body));
	const place = h("div");
	let typing = 0;
	search.addEventListener("input", () => {
		clearTimeout(typing);
		typing = setTimeout(() => { contains = search.value.trim(); tokens = [""]; load(); }, 200);
	});

	function sort(by) { orderBy = by; tokens = [""]; load(); }

	async function load() {
		const mine = ++turn;
		let answer;
		try {
			answer = await get(path, { ...parameters, contains, orderBy, pageSize: size, pageToken: tokens.at(-1) });
		} catch (error) {
			if (mine === turn && !signal.aborted) place.replaceChildren(failure(error));
			return;
		}
		if (mine !== turn || signal.aborted) return;
		const rows = answer[field] ?? [];
		body.replaceChildren(...bodyOf(columns, rows));
		columns.forEach((column, index) => {
			if (column.order === orderBy) heads[index].setAttribute("aria-sort", orderBy === "name" ? "ascending" : "descending");
			else heads[index].removeAttribute("aria-sort");
		});
		const first = (tokens.length - 1) * size;
		const total = Number(answer.total ?? rows.length);
		state.textContent = rows.length ? `${count(first + 1)}–${count(first + rows.length)} of ${count(total)}` : "";
		before.disabled = tokens.length === 1;
		after.disabled = !answer.nextPageToken;
		after.dataset.token = answer.nextPageToken ?? "";
		before.hidden = after.hidden = before.disabled && after.disabled;
		if (rows.length) { if (frame.parentNode !== place) place.replaceChildren(frame); }
		else place.replaceChildren(contains ? h("p.empty", `No name has “${contains}” in it.`) : nothing ?? "");
		onrows?.(rows);
	}

	every(4000, signal, load);
	return { element: h("div.card.list", h("div.tools", search, state), place, h("div.pager", before, after)), load };
}
