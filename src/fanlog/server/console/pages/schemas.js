// Schemas with their revisions, and the difference of two of them.

import { all, apiOf, ask, asking, badge, button, cell, code, creating, deleting, empty, get, go, h, heading, link, note, pathOf, post, ref, remove, rights, rowActs, rowName, section, show, table, time, to, will } from "../kit.js";
import { permissions } from "./access.js";
import { pretty } from "../payload.js";

const AROUND = 3;
const LINES = 2000;

/** Pairs of `=`, `-` or `+` and a line. */
function changes(before, after) {
	const [a, b] = [before.split("\n").slice(0, LINES), after.split("\n").slice(0, LINES)];
	const width = b.length + 1;
	const best = new Uint16Array((a.length + 1) * width);
	for (let i = a.length - 1; i >= 0; i -= 1) {
		for (let j = b.length - 1; j >= 0; j -= 1) {
			best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
		}
	}
	const found = [];
	let [i, j] = [0, 0];
	while (i < a.length || j < b.length) {
		if (i < a.length && j < b.length && a[i] === b[j]) { found.push(["=", a[i]]); i += 1; j += 1; }
		else if (i < a.length && (j === b.length || best[(i + 1) * width + j] >= best[i * width + j + 1])) { found.push(["-", a[i]]); i += 1; }
		else { found.push(["+", b[j]]); j += 1; }
	}
	return found;
}

const NAMES = { "-": "del", "+": "ins", "=": "span" };

function difference(before, after) {
	const found = changes(before, after);
	const near = new Set();
	found.forEach(([sign], index) => { if (sign !== "=") for (let at = index - AROUND; at <= index + AROUND; at += 1) near.add(at); });
	if (!near.size) return note("They are the same.");
	let hidden = false;
	const lines = [];
	found.forEach(([sign, line], index) => {
		if (!near.has(index)) {
			if (!hidden) lines.push(h("span.gap", "⋯\n"));
			hidden = true;
		} else {
			hidden = false;
			lines.push(h(NAMES[sign], {}, `${sign === "=" ? " " : sign} ${line}\n`));
		}
	});
	return h("pre.data.difference", { tabindex: "0" }, lines);
}

const definitionField = (value, type) => (["definition", "Definition", "code", { rows: 14, required: true, value: value && type !== "PROTOCOL_BUFFER" ? pretty(value) ?? value : value }]);

const LEVELS = [["", "as the server says"], ["NONE", "anything"], ["BACKWARD", "readable for new readers"], ["FORWARD", "readable for old readers"], ["FULL", "both"]];

const create = (project) => creating("schema", [["type", "Language", "select", { options: [["AVRO", "Avro"], ["PROTOCOL_BUFFER", "Protocol Buffers"], ["JSON", "JSON Schema"]] }],
	["compatibility", "New revisions must be", "select", { value: "", options: LEVELS }], definitionField()],
async ({ id, type, compatibility, definition }) => {
	const headers = compatibility && { "fanlog-compatibility": compatibility };
	go(link((await post(`${apiOf(project)}/schemas?schemaId=${encodeURIComponent(id)}`, { type, definition }, { headers })).name));
});

export async function schemas({ root, project, may }) {
	const found = await all(`${apiOf(project)}/schemas`, "schemas");
	root.append(heading("Schemas", { note: "What messages of a topic must look like. Each has revisions that are never changed.", actions: may("pubsub.schemas.create") && button("Create a schema", () => create(project), "primary") }),
		h("div.card.list", table("Schemas", [rowName("Name", "name", ref), cell("Language", "type"), cell("Revision", "revisionId", code), cell("Committed", "revisionCreateTime", time)],
			found, empty("No schemas yet.", "With one, a topic refuses messages that are not like it."))));
}

export async function schema({ root, names: [id], signal, project, reload }) {
	const name = `projects/${project}/schemas/${id}`;
	const [may, { schemas: revisions = [] }] = await Promise.all([rights(name, `projects/${project}`), get(`${pathOf(name)}:listRevisions`, { view: "FULL", pageSize: 100 })]);
	const [now] = revisions;
	const commit = () => ask({ title: `A new revision of ${id}`, label: "Commit", done: "The revision is committed.", fields: [definitionField(now.definition, now.type)],
		act: ({ definition }) => post(`${pathOf(name)}:commit`, { schema: { type: now.type, definition } }) });
	const rollback = (row) => ask({ title: `Go back to ${row.revisionId}?`, lead: "Its definition is committed once more, as the newest revision.", label: "Go back", done: "Gone back.", act: () => post(`${pathOf(name)}:rollback`, { revisionId: row.revisionId }) });
	const dropRevision = (row) => ask({ title: `Delete revision ${row.revisionId}?`, danger: true, lead: "Messages published by it can no longer be decoded.", done: "The revision is gone.", act: () => remove(`${pathOf(`${name}@${row.revisionId}`)}:deleteRevision`) });
	const drop = () => deleting("schema", name, { estimate: will("delete", name) });
	root.append(heading(id, { kind: "Schema", badges: [badge(now?.type ?? "")], actions: [may("pubsub.schemas.commit") && asking("New revision", commit, reload, "primary"), may("pubsub.schemas.delete") && asking("Delete", drop, () => go(to(project, "schemas")), "danger quiet")] }));
	const compare = section("Difference");
	const select = (label) => h("select", { "aria-label": label, onchange: () => draw() }, revisions.map((row, index) => h("option", { value: String(index) }, `${row.revisionId}${index ? "" : " (newest)"}`)));
	const [older, newer] = [select("Older revision"), select("Newer revision")];
	function compareWith(row) {
		const index = revisions.indexOf(row);
		older.value = String(Math.min(index + 1, revisions.length - 1));
		newer.value = String(index);
		draw();
	}
	const textOf = (row) => (row.type === "PROTOCOL_BUFFER" ? row.definition : pretty(row.definition) ?? row.definition) ?? "";
	const place = h("div");
	function draw() {
		show(place, difference(textOf(revisions[older.value]), textOf(revisions[newer.value])));
	}
	compare.append(h("div.tools", h("label.inline", "From ", older), h("label.inline", "to ", newer)), place);
	root.append(section("Revisions", table("Revisions", [
		rowName("Revision", "revisionId", code),
		cell("Committed", "revisionCreateTime", time),
		rowActs((row) => [button("Compare", () => compareWith(row), "small"), row !== now && may("pubsub.schemas.rollback") && asking("Go back to it", () => rollback(row), reload, "small"),
			revisions.length > 1 && may("pubsub.schemas.delete") && asking("Delete", () => dropRevision(row), reload, "danger quiet small")]),
	], revisions, empty("No revisions."))), section("Definition", h("pre.data", { tabindex: "0" }, now && textOf(now))));
	if (revisions.length > 1) { root.append(compare); compareWith(now); }
	root.append(await permissions(name, "schemas", may));
}
