//! A headless Chromium, spoken to over two pipes by its own protocol: no port, no driver, no network.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long one answer may take: a hang, not a measure of speed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where Chromium is, or why there is none.
pub fn chromium() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)))
        .find(|file| file.is_file())
        .ok_or_else(|| "no chromium in PATH (`scripts/setup --test` installs Debian's)".to_string())
}

/// A browser with one tab; gone with this value.
pub struct Browser {
    process: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// What the page complained of: errors and warnings of the console, exceptions, what could not be loaded.
    pub complaints: Vec<String>,
    _home: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// Starts one.
    pub fn start(program: &Path) -> Browser {
        let home = tempfile::tempdir().expect("a directory");
        let [to, from] = ["to", "from"].map(|name| home.path().join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status().expect("mkfifo");
        assert!(made.success(), "mkfifo");
        // The protocol's pipes are its descriptors 3 and 4; the shell puts them there.
        let process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$FATHOM_TO\" 4>\"$FATHOM_FROM\""])
            .arg(program)
            .args(["--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-quic"])
            // No sandbox: as root there is none, and the pages are ours.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
            .arg("about:blank")
            .env("FATHOM_TO", &to)
            .env("FATHOM_FROM", &from)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let to = File::options().write(true).open(&to).expect("the pipe to it");
        let from = listen(File::open(&from).expect("the pipe from it"));
        let mut browser = Browser {
            process,
            to,
            from,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
            _home: home,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let at = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", at);
        browser.session = session["sessionId"].as_str().expect("a session").to_string();
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// One command and its answer; what the page says meanwhile is kept.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            let answer = self.from.recv_timeout(PATIENCE).expect("the browser answers");
            if answer["id"] == json!(self.next) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.heard(&answer);
        }
    }

    fn heard(&mut self, event: &Value) {
        let params = &event["params"];
        let bad = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].contains(&params["type"].as_str().unwrap_or(""))
            }
            Some("Log.entryAdded") => {
                ["error", "warning"].contains(&params["entry"]["level"].as_str().unwrap_or(""))
            }
            _ => false,
        };
        if bad {
            self.complaints.push(params.to_string());
        }
    }

    /// A script's value; a promise is waited for.
    pub fn value(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Opens a page in a window of this size and waits until its figures are drawn.
    pub fn open(&mut self, page: &Path, width: u64, height: u64, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!([{"name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" }}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": scheme}));
        self.ask("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        // Asked again and again, because an old document may still be there, or a new one not yet.
        let script = "document.readyState === 'complete' && [document.documentElement.dataset.drawn ?? \
                      document.querySelector('figcaption')?.textContent ?? '']";
        let start = std::time::Instant::now();
        loop {
            let drawn = self.value(script);
            if drawn[0].as_str().is_some_and(|n| n.parse::<u64>().is_ok()) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the figures are not drawn: {drawn}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key on whatever has the focus.
    pub fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => json!("\r"),
            key if key.chars().count() == 1 => json!(key),
            _ => Value::Null,
        };
        let mut down = json!({"type": "keyDown", "key": key});
        if key == "Enter" {
            down["windowsVirtualKeyCode"] = json!(13);
        }
        if !text.is_null() {
            down["text"] = text;
        }
        self.ask("Input.dispatchKeyEvent", down);
        self.ask("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    /// Moves the mouse to a point of the window.
    pub fn hover(&mut self, x: f64, y: f64) {
        self.ask("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// The whole page as a picture, into a file.
    pub fn shoot(&mut self, file: &Path) {
        let answer = self.ask("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        let picture = decode(answer["data"].as_str().expect("a picture"));
        std::fs::write(file, picture).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }

    /// The length of the page as it would be printed, in bytes of PDF.
    pub fn printed(&mut self) -> usize {
        let answer = self.ask("Page.printToPDF", json!({}));
        decode(answer["data"].as_str().expect("a document")).len()
    }
}

fn decode(base64: &str) -> Vec<u8> {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    BASE64_STANDARD.decode(base64).expect("base64")
}

/// Messages end in a zero byte; they are read on a thread, so that waiting for one can end.
fn listen(from: File) -> Receiver<Value> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut message = Vec::new();
        while from.read_until(0, &mut message).is_ok_and(|n| n > 0) {
            message.pop();
            let Ok(value) = serde_json::from_slice(&message) else { break };
            if send.send(value).is_err() {
                break;
            }
            message.clear();
        }
    });
    receive
}
