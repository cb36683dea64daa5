import { all, ask, button, cell, empty, get, idOf, pathOf, remove, rowActs, rowName, section, table, time } from "../kit.js";

export const deleteSnapshot = (name) => ask({
	title: `Delete the snapshot ${idOf(name)}?`, label: "Delete", danger: true,
	estimate: () => ({ act: "delete", resource: name }), act: () => remove(pathOf(name)), done: "The snapshot is gone.",
});

/** Snapshots of a topic; the API tells their names, and each one's end. */
export async function snapshotTable(path, may, reload) {
	const names = await all(path, "snapshots", {}, 100);
	const found = await Promise.all(names.map((one) => (typeof one === "string" ? get(pathOf(one)).catch(() => ({ name: one })) : one)));
	return section("Snapshots", table("Snapshots", [
		rowName("Name", (row) => idOf(row.name)),
		cell("Ends", (row) => time(row.expireTime)),
		rowActs((row) => may("pubsub.snapshots.delete") ? button("Delete", async () => (await deleteSnapshot(row.name)) && reload(), "quiet small") : ""),
	], found, empty("No snapshots.", "A snapshot keeps what a subscription had acknowledged, to go back to. It is made on the page of a subscription.")));
}
