document.getElementById("main").textContent = "foreline explore";
