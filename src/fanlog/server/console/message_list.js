// A table of messages, and a dialog to look inside one.

import { button, bytes, cell, code, empty, facts, h, homeOf, idOf, inform, labels, link, number, pairsOf, post, ref, rowName, table, time } from "./kit.js";
import { payload, preview } from "./payload.js";

const WHOLE = 10_000_000;

export const lifeOf = (messageId, project) => `${homeOf(project)}/messages/${encodeURIComponent(messageId)}`;

export function look(found, project) {
	const { message } = found;
	const place = h("div", {}, payload(message.data, found));
	const whole = found.dataCut && button(`Load all ${bytes(found.dataBytes)}`, async () => {
		whole.disabled = true;
		try {
			const answer = await post("/v1/messages:browse", { topic: found.topic, messageId: message.messageId, maxMessages: 1, maxDataBytes: WHOLE, decode: true });
			place.replaceChildren(payload(answer.messages[0].message.data, answer.messages[0]));
			cut.hidden = true;
		} catch (error) { cut.replaceChildren(error.message); }
	}, "small");
	const cut = h("p", { class: "note", hidden: !found.dataCut }, "This is the beginning of the data. ", whole);
	inform(`Message ${message.messageId}`,
		facts([["Topic", ref(found.topic)], ["Published", time(message.publishTime)], ["Offset", found.offset ?? "0"],
			["Ordering key", message.orderingKey && code(message.orderingKey)],
			["Size", `${bytes(found.sizeBytes)}, of which data ${bytes(found.dataBytes)}`], ["Tier", found.tier === "lake" ? "the lake" : "hot"],
			["Schema revision", found.schemaRevisionId], ["Addressee", found.addressee && idOf(found.addressee)],
			["Attributes", message.attributes && labels(message.attributes)]]),
		cut, place, h("a", { href: lifeOf(message.messageId, project) }, "What became of it"));
}

export function messageTable(caption, messages, project, nothing, withTopic = false) {
	return table(caption, [
		rowName("Message", (row) => button(row.message.messageId, () => look(row, project), "as-link mono")),
		cell("Published", (row) => time(row.message.publishTime)),
		withTopic && cell("Topic", (row) => idOf(row.topic)),
		number("Offset", (row) => row.offset ?? "0"),
		cell("Key", (row) => h("code", { class: "cut" }, row.message.orderingKey ?? "")),
		cell("Attributes", (row) => h("code", { class: "cut" }, pairsOf(row.message.attributes).join("  "))),
		cell("Data", (row) => h("code", { class: "cut wide-cut" }, preview(row.message.data))),
		number("Size", (row) => bytes(row.sizeBytes)),
		messages.some((row) => row.tier !== "hot") && cell("Tier", (row) => row.tier ?? ""),
	].filter(Boolean), messages, nothing ?? empty("No message."));
}
