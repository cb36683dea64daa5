// Dead letters: why and where they failed, and what to do with them.

import { all, apiOf, ask, button, bytes, cell, count, empty, facts, failure, get, go, h, heading, homeOf, idOf, inform, instant, labels, link, note, number, open, pathOf, plural, post, ref, rowActs, rowName, section, table, tell, time } from "../kit.js";
import { lifeOf } from "../message_list.js";
import { payload, preview } from "../payload.js";

async function readersOf(project, signal) {
	const rows = await all(`${apiOf(project)}/subscriptions:search`, "subscriptions", { orderBy: "name" }, 2000);
	const dead = new Set(rows.map((row) => row.deadLetterTopic).filter(Boolean));
	return { readers: rows.filter((row) => dead.has(row.topic)), unread: [...dead].filter((topic) => !rows.some((row) => row.topic === topic)), more: rows.more, signal };
}

async function countAll(path, signal, shown) {
	const groups = new Map();
	let rest = 0;
	let pageToken;
	do {
		const answer = await get(`${path}/deadLetters:count`, { pageToken }, { signal });
		for (const group of answer.groups ?? []) {
			const key = `${group.sourceSubscription}\n${group.reason}`;
			const before = groups.get(key);
			if (!before) groups.set(key, { ...group, letters: Number(group.letters) });
			else Object.assign(before, { letters: before.letters + Number(group.letters), lastTime: group.lastTime });
		}
		rest += Number(answer.rest ?? 0);
		pageToken = answer.nextPageToken;
		shown([...groups.values()].sort((one, other) => other.letters - one.letters), rest, Boolean(pageToken));
	} while (pageToken && !signal.aborted);
}

/** Redrives or discards page by page, with a bar and a way to stop. */
function work(verb, path, body, total) {
	return new Promise((resolve) => {
		let stopped = false;
		let done = 0;
		let skipped = 0;
		const bar = h("progress", { max: String(Math.max(total, 1)), value: "0", "aria-label": "Progress" });
		const words = h("p", { role: "status" }, "Starting…");
		const why = h("ul", { class: "note" });
		const stop = button("Stop", () => { stopped = true; });
		const dialog = open(verb === "redrive" ? "Redriving" : "Discarding", h("div", { class: "stack" }, words, bar, why, h("div", { class: "choices" }, stop)));
		dialog.addEventListener("close", resolve);
		dialog.addEventListener("cancel", (event) => { event.preventDefault(); stopped = true; });
		(async () => {
			let pageToken;
			try {
				do {
					const answer = await post(`${path}:${verb}`, body.messageIds ? body : { ...body, maxMessages: 500, pageToken });
					done += Number(answer.reopened ?? 0) + Number(answer.copied ?? 0) + Number(answer.discarded ?? 0);
					skipped += Number(answer.skipped ?? 0);
					for (const one of (answer.skippedLetters ?? []).slice(0, Math.max(0, 5 - why.childElementCount))) why.append(h("li", {}, `${one.messageId}: ${one.reason}`));
					bar.value = done + skipped;
					words.textContent = `${count(done)} of ${count(total)} ${verb === "redrive" ? "redriven" : "discarded"}${skipped ? `, ${count(skipped)} skipped` : ""}.`;
					pageToken = answer.nextPageToken;
				} while (pageToken && !stopped);
				if (!skipped) dialog.close();
				else stop.replaceWith(button("Close", () => dialog.close(), "primary"));
				tell(`${words.textContent}${stopped && pageToken ? " Stopped." : ""}`);
			} catch (error) {
				words.replaceWith(failure(error));
				stop.replaceWith(button("Close", () => dialog.close(), "primary"));
			}
		})();
	});
}

const chosen = (group) => (group ? { sourceSubscription: group.sourceSubscription, reason: group.reason } : { all: true });

async function redrive(path, group, total) {
	let body;
	const agreed = await ask({ title: group ? "Redrive these letters" : "Redrive all letters", label: "Redrive",
		lead: `${plural(total, "letter")} ${total === 1 ? "goes" : "go"} back to the subscription ${total === 1 ? "it" : "they"} failed on, and will be delivered again there.${group ? ` Reason: ${group.reason}` : ""}`,
		fields: [{ name: "start", label: "Only those since", type: "datetime-local", step: 1 }, { name: "end", label: "and before", type: "datetime-local", step: 1 },
			{ name: "copies", label: "Publish copies where the message itself is no longer kept", type: "checkbox", value: true }],
		act: ({ start, end, copies }) => {
			const window = { startTime: instant(start), endTime: instant(end) };
			body = group || start || end ? { ...(group ? chosen(group) : {}), ...window, copies } : { all: true, copies };
		} });
	if (agreed) await work("redrive", path, body, total);
	return agreed;
}

async function discard(path, group, total) {
	const agreed = await ask({ title: group ? "Discard these letters?" : "Discard all letters?", label: "Discard", danger: true,
		lead: `${plural(total, "letter")} ${total === 1 ? "is" : "are"} acknowledged and not delivered to anybody again. This cannot be undone.`, fields: [], act: () => undefined });
	if (agreed) await work("discard", path, chosen(group), total);
	return agreed;
}

function lookInside(letter, project) {
	const { message } = letter;
	inform(`Dead letter ${message.messageId}`, facts([
		["Reason", letter.reason], ["Failed on", ref(letter.sourceSubscription)], ["Attempts", count(letter.deliveryAttempts)],
		["First message", letter.sourceMessageId && h("a", { href: lifeOf(letter.sourceMessageId, project) }, letter.sourceMessageId)], ["Came", time(message.publishTime)], ["Ordering key", message.orderingKey],
		["Attributes", labels(message.attributes)]]),
		payload(message.data));
}

async function groupPage({ path, group, project, place, signal, reload }) {
	const picked = new Set();
	const found = [];
	const rows = h("div");
	const more = button("More", () => page(more.dataset.token));
	const act = (verb) => async () => {
		if (!picked.size) return tell("Choose some letters first.", true);
		const agreed = await ask({ title: `${verb === "redrive" ? "Redrive" : "Discard"} ${plural(picked.size, "letter")}?`, label: verb === "redrive" ? "Redrive" : "Discard", danger: verb !== "redrive", fields: [],
			lead: verb === "redrive" ? "They go back to the subscription they failed on." : "They are not delivered to anybody again. This cannot be undone.", act: () => undefined });
		if (agreed) { await work(verb, path, { messageIds: [...picked] }, picked.size); reload(); }
	};
	async function page(pageToken) {
		const answer = await get(`${path}/deadLetters`, { sourceSubscription: group.sourceSubscription, reason: group.reason, pageSize: 50, pageToken }, { signal });
		found.push(...(answer.letters ?? []));
		more.dataset.token = answer.nextPageToken ?? "";
		more.hidden = !answer.nextPageToken;
		rows.replaceChildren(table("Letters", [
			{ label: h("span", { class: "hidden" }, "Choose"), cell: (row) => {
				const box = h("input", { type: "checkbox", "aria-label": `Choose ${row.message.messageId}`, onchange: () => (box.checked ? picked.add(row.message.messageId) : picked.delete(row.message.messageId)) });
				box.checked = picked.has(row.message.messageId);
				return box;
			} },
			rowName("Letter", (row) => button(row.message.messageId, () => lookInside(row, project), "as-link mono")),
			cell("Came", (row) => time(row.message.publishTime)),
			number("Attempts", (row) => count(row.deliveryAttempts)),
			cell("Key", (row) => h("code", { class: "cut" }, row.message.orderingKey ?? "")),
			cell("Data", (row) => h("code", { class: "cut wide-cut" }, preview(row.message.data))),
			number("Size", (row) => bytes((row.message.data ?? "").length * 0.75)),
		], found, empty("No letters any more.")));
	}
	place.replaceChildren(section(`Letters of ${idOf(group.sourceSubscription)}`, note(group.reason),
		h("div", { class: "tools" }, button("Redrive the chosen", act("redrive"), "small"), button("Discard the chosen", act("discard"), "danger quiet small")), rows, h("div", { class: "pager" }, more)));
	await page();
	place.querySelector("h2").scrollIntoView({ block: "nearest" });
}

export async function letters({ root, query, signal, project, reload }) {
	const { readers, unread, more } = await readersOf(project, signal);
	const id = query.get("subscription") ?? (readers[0] && idOf(readers[0].name));
	const base = `${homeOf(project)}/letters`;
	root.append(heading("Dead letters", { note: "Messages that failed too often, by reason and by the subscription they failed on." }));
	if (unread.length) root.append(h("p", { class: "failure" }, `Nothing reads ${unread.map(idOf).join(", ")}: letters there are lost with the topic's retention. Create a subscription of it.`));
	if (!id) {
		root.append(empty("No subscription reads dead letters.", "Give a subscription a dead letter topic, and that topic a subscription; what fails too often is then kept here."));
		return;
	}
	const path = pathOf(`projects/${project}/subscriptions/${id}`);
	const select = h("select", { "aria-label": "Dead letters read by", onchange: () => go(`${base}?subscription=${encodeURIComponent(select.value)}`) },
		[...new Set([id, ...readers.map((row) => idOf(row.name))])].map((one) => h("option", { value: one }, one)));
	select.value = id;
	const groups = section("By reason");
	const inside = h("div", { "aria-live": "polite" });
	const everything = h("div", { class: "actions" });
	root.append(h("div", { class: "tools" }, h("label", { class: "inline" }, "Read by ", select), more ? h("span", { class: "note" }, "Of the first 2,000 subscriptions.") : null, h("span", { class: "grow" }), everything), groups, inside);
	await countAll(path, signal, (rows, rest, going) => {
		const total = rows.reduce((sum, row) => sum + row.letters, rest);
		everything.replaceChildren(...(total && !going ? [button("Redrive all", async () => (await redrive(path, null, total)) && reload()), button("Discard all", async () => (await discard(path, null, total)) && reload(), "danger quiet")] : []));
		groups.replaceChildren(groups.firstChild, table("Dead letters by reason", [
			rowName("Failed on", (row) => ref(row.sourceSubscription)),
			{ label: "Reason", kind: "fill", cell: (row) => row.reason || "–" },
			number("Letters", (row) => count(row.letters)),
			cell("First", (row) => time(row.firstTime)),
			cell("Last", (row) => time(row.lastTime)),
			rowActs((row) => [button("Look inside", () => groupPage({ path, group: row, project, place: inside, signal, reload }), "small"), button("Redrive", async () => (await redrive(path, row, row.letters)) && reload(), "small"), button("Discard", async () => (await discard(path, row, row.letters)) && reload(), "danger quiet small")]),
		], rows, empty("No dead letters.", `Nothing waits on ${id}.`)), going ? note("Counting on…") : rest ? h("p", { class: "note below" }, `${count(rest)} of other reasons.`) : "");
	});
}
