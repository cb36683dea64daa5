// Tables of rows at hand, and of a list that the server searches, sorts and pages.

import { button, empty, every, failure, h, heading, show, soon } from "./dom.js";
import { get } from "./api.js";
import { age, apiOf, capital, count } from "./words.js";

// A cell is a function of the row, or one of its fields and how that is shown.
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
	return framed(caption, h("table",
		h("thead", h("tr", columns.map((column) => h("th", { scope: "col", class: column.kind }, column.label)))),
		h("tbody", bodyOf(columns, rows))));
}

const SIZE = 50;

/** The page of all topics or subscriptions; columns with an order can be sorted by. */
export function listPage({ root, signal, project, may, query }, kind, { note, order, columns, create, nothing }) {
	const title = capital(kind);
	const make = () => may(`pubsub.${kind}.create`) && button(`Create a ${kind.slice(0, -1)}`, () => create(project), "primary");
	let orderBy = query.get("order") ?? order;
	let tokens = [""];
	let turn = 0;
	const load = async () => {
		const mine = ++turn;
		const contains = search.value.trim();
		try {
			const answer = await get(`${apiOf(project)}/${kind}:search`, { contains, orderBy, pageSize: SIZE, pageToken: tokens.at(-1) });
			if (mine === turn) draw(answer, contains);
		} catch (error) {
			if (mine === turn && !signal.aborted) show(place, failure(error));
		}
	};
	const from = (token) => { tokens = token; return load(); };
	const search = h("input", { type: "search", placeholder: `Search ${kind} by a part of the name`, "aria-label": `Search ${kind}`, autocomplete: "off", spellcheck: "false", oninput: soon(() => from([""]), 200) });
	const heads = columns.map(({ label, order: by, kind: cls }) =>
		h("th", { scope: "col", class: cls }, by ? h("button.sort", { type: "button", onclick: () => { orderBy = by; from([""]); } }, label) : label));
	const body = h("tbody");
	const frame = framed(title, h("table", h("thead", h("tr", heads)), body));
	const state = h("p.note", { role: "status" });
	const before = button("Previous", () => from(tokens.slice(0, -1)));
	const after = button("Next", () => from([...tokens, after.dataset.token]));
	const place = h("div");

	function draw(answer, contains) {
		const rows = answer[kind] ?? [];
		show(body, bodyOf(columns, rows));
		columns.forEach((column, index) => {
			if (column.order === orderBy) heads[index].setAttribute("aria-sort", orderBy === "name" ? "ascending" : "descending");
			else heads[index].removeAttribute("aria-sort");
		});
		const first = (tokens.length - 1) * SIZE;
		show(state, rows.length > 0 && `${count(first + 1)}–${count(first + rows.length)} of ${count(answer.total ?? rows.length)}`);
		before.disabled = tokens.length === 1;
		after.disabled = !answer.nextPageToken;
		after.dataset.token = answer.nextPageToken ?? "";
		before.hidden = after.hidden = before.disabled && after.disabled;
		if (!rows.length) show(place, contains ? h("p.empty", `No name has “${contains}” in it.`) : empty(...nothing, make()));
		else if (frame.parentNode !== place) show(place, frame);
	}

	root.append(heading(title, { note, actions: make() }), h("div.card.list", h("div.tools", search, state), place, h("div.pager", before, after)));
	return every(4000, signal, load);
}
