// Before the first paint, so that a page that was dark does not flash. No module, for these wait.
(() => {
	const kept = localStorage.getItem("fanlog-theme");
	if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
