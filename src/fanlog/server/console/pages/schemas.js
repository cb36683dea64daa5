import { all, apiOf, ask, badge, button, cell, code, empty, failure, get, go, h, heading, homeOf, link, pathOf, post, ref, remove, rights, rowActs, rowName, section, table, time } from "../kit.js";
import { difference } from "../difference.js";
import { permissions } from "./permissions.js";
import { pretty } from "../payload.js";

const definitionField = (value, type) => ({ name: "definition", label: "Definition", type: "textarea", rows: 14, mono: true, required: true, value: value && type !== "PROTOCOL_BUFFER" ? pretty(value) ?? value : value });

const create = (base, project) => ask({ title: "Create a schema", label: "Create", done: "The schema is there.",
	fields: [{ name: "id", label: "Name", required: true, mono: true }, { name: "type", label: "Language", type: "select", options: [["AVRO", "Avro"], ["PROTOCOL_BUFFER", "Protocol Buffers"], ["JSON", "JSON Schema"]] },
		{ name: "compatibility", label: "New revisions must be", type: "select", value: "", options: [["", "as the server says"], ["NONE", "anything"], ["BACKWARD", "readable for new readers"], ["FORWARD", "readable for old readers"], ["FULL", "both"]] }, definitionField()],
	act: async ({ id, type, compatibility, definition }) => {
		const found = await post(`${base}/schemas?schemaId=${encodeURIComponent(id)}`, { type, definition }, compatibility ? { headers: { "fanlog-compatibility": compatibility } } : {});
		go(link(found.name ?? `projects/${project}/schemas/${id}`));
	} });

export async function schemas({ root, signal, project, may }) {
	const base = apiOf(project);
	const found = await all(`${base}/schemas`, "schemas", {}, 1000);
	if (signal.aborted) return;
	const make = may("pubsub.schemas.create") && button("Create a schema", () => create(base, project), "primary");
	root.append(heading("Schemas", { note: "What messages of a topic must look like. Each has revisions that are never changed.", actions: make ? [make] : [] }),
		h("div", { class: "card list" }, table("Schemas", [
			rowName("Name", (row) => ref(row.name)),
			cell("Language", (row) => row.type),
			cell("Revision", (row) => code(row.revisionId)),
			cell("Committed", (row) => time(row.revisionCreateTime)),
		], found, empty("No schemas yet.", "With one, a topic refuses messages that are not like it, and the console shows their data in words."))));
}

export async function schema({ root, names: [id], signal, project, reload }) {
	const name = `projects/${project}/schemas/${id}`;
	const [may, { schemas: revisions = [] }] = await Promise.all([rights(name, `projects/${project}`), get(`${pathOf(name)}:listRevisions`, { view: "FULL", pageSize: 100 }, { signal })]);
	const [now] = revisions;
	const say = (done) => done && reload();
	const commit = () => ask({ title: `A new revision of ${id}`, label: "Commit", done: "The revision is committed.", fields: [definitionField(now.definition, now.type)],
		act: ({ definition }) => post(`${pathOf(name)}:commit`, { schema: { type: now.type, definition } }) });
	const rollback = (row) => ask({ title: `Go back to ${row.revisionId}?`, lead: "Its definition is committed once more, as the newest revision.", label: "Go back", done: "Gone back.", act: () => post(`${pathOf(name)}:rollback`, { revisionId: row.revisionId }) });
	const dropRevision = (row) => ask({ title: `Delete revision ${row.revisionId}?`, label: "Delete", danger: true, lead: "Messages that were published by it can no longer be decoded.", done: "The revision is gone.", act: () => remove(`${pathOf(`${name}@${row.revisionId}`)}:deleteRevision`) });
	const drop = () => ask({ title: `Delete ${id}?`, label: "Delete the schema", danger: true, confirmName: id, estimate: () => ({ act: "delete", resource: name }), done: "The schema is gone.",
		act: async () => { await remove(pathOf(name)); go(`${homeOf(project)}/schemas`); } });
	root.append(heading(id, { kind: "Schema", badges: [badge(now?.type ?? "")], actions: [may("pubsub.schemas.commit") && button("New revision", async () => say(await commit()), "primary"), may("pubsub.schemas.delete") && button("Delete", drop, "danger quiet")].filter(Boolean) }));
	const compare = section("Difference");
	const choices = revisions.map((row, index) => [String(index), `${row.revisionId}${index ? "" : " (newest)"}`]);
	const select = (label, value) => { const made = h("select", { "aria-label": label, onchange: () => draw() }, choices.map(([key, words]) => h("option", { value: key }, words))); made.value = value; return made; };
	const older = select("Older revision", String(Math.min(1, revisions.length - 1)));
	const newer = select("Newer revision", "0");
	const shown = (row) => (row.type === "PROTOCOL_BUFFER" ? row.definition : pretty(row.definition) ?? row.definition) ?? "";
	const place = h("div");
	function draw() {
		try { place.replaceChildren(difference(shown(revisions[older.value]), shown(revisions[newer.value]))); } catch (error) { place.replaceChildren(failure(error)); }
	}
	compare.append(h("div", { class: "tools" }, h("label", { class: "inline" }, "From ", older), h("label", { class: "inline" }, "to ", newer)), place);
	root.append(section("Revisions", table("Revisions", [
		rowName("Revision", (row) => code(row.revisionId)),
		cell("Committed", (row) => time(row.revisionCreateTime)),
		rowActs((row) => [button("Compare", () => { older.value = String(Math.min(revisions.indexOf(row) + 1, revisions.length - 1)); newer.value = String(revisions.indexOf(row)); draw(); }, "small"),
			row !== now && may("pubsub.schemas.rollback") && button("Go back to it", async () => say(await rollback(row)), "small"), revisions.length > 1 && may("pubsub.schemas.delete") && button("Delete", async () => say(await dropRevision(row)), "danger quiet small")].filter(Boolean)),
	], revisions, empty("No revisions."))), section("Definition", h("pre", { class: "data", tabindex: "0" }, now ? shown(now) : "")));
	if (revisions.length > 1) { root.append(compare); draw(); }
	root.append(await permissions(name, "schemas", may));
}
