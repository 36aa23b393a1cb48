// Sets the remembered theme before the first paint. It is no module, because modules run after it.
try {
  const theme = localStorage.getItem("redoubt.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // The browser forbids storage: the theme of the system stays.
}
