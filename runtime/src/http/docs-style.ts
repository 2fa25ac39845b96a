/** Style and script of the reference page; both are inline, under the page's nonce. */

export const DOCS_STYLE = `
:root{color-scheme:light dark;--bg:#fbfbfa;--fg:#1c1f23;--mute:#636b74;--line:#e3e5e8;--card:#fff;--code:#f3f4f5;--acc:#0b6bcb;
--get:#0f7b4b;--post:#0b6bcb;--put:#8a5a00;--patch:#8a5a00;--delete:#b3261e}
@media (prefers-color-scheme:dark){:root{--bg:#131518;--fg:#e8eaed;--mute:#9aa2ab;--line:#2a2e33;--card:#1a1d21;--code:#22262b;
--acc:#6cb3ff;--get:#57d19a;--post:#6cb3ff;--put:#e8b45a;--patch:#e8b45a;--delete:#ff8a80}}
*{box-sizing:border-box}html{scroll-behavior:smooth;scroll-padding-top:1rem}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;display:grid;grid-template-columns:19rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;border-right:1px solid var(--line);padding:1.2rem 1rem}
nav h1{font-size:1.05rem;margin:0 0 .8rem}nav h2{font-size:.72rem;letter-spacing:.06em;text-transform:uppercase;color:var(--mute);margin:1.1rem 0 .3rem}
nav a{display:flex;gap:.5rem;align-items:baseline;padding:.16rem .4rem;border-radius:6px;color:inherit;text-decoration:none;font-size:.86rem}
nav a:hover,nav a:focus-visible{background:var(--code)}nav a span:last-child{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
input{width:100%;padding:.45rem .6rem;border:1px solid var(--line);border-radius:8px;background:var(--card);color:inherit;font:inherit}
main{padding:2rem clamp(1rem,4vw,3.5rem) 6rem;max-width:68rem}main>header p{color:var(--mute)}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.1rem 1.3rem;margin:0 0 1.1rem}
section h3{display:flex;flex-wrap:wrap;gap:.6rem;align-items:center;margin:0 0 .2rem;font-size:1rem}
section h4{margin:1rem 0 .35rem;font-size:.78rem;text-transform:uppercase;letter-spacing:.05em;color:var(--mute)}
.m{font:600 .68rem/1 ui-monospace,monospace;min-width:3.6em;text-transform:uppercase}
.get{color:var(--get)}.post{color:var(--post)}.put{color:var(--put)}.patch{color:var(--patch)}.delete{color:var(--delete)}
code,pre{font:.84rem/1.5 ui-monospace,SFMono-Regular,Menlo,monospace}code{overflow-wrap:anywhere}
pre{margin:.4rem 0;padding:.6rem .8rem;max-height:24rem;overflow:auto;border-radius:8px;background:var(--code)}
.path{font-size:.95rem}.tag{font-size:.72rem;border:1px solid var(--line);border-radius:99px;padding:.05rem .55rem;color:var(--mute)}
ul.s{list-style:none;margin:0;padding:0 0 0 .9rem;border-left:2px solid var(--line)}ul.s li{padding:.18rem 0}
.t{color:var(--mute);font-size:.84rem}.r{color:var(--delete);font-size:.74rem}.d{color:var(--mute)}
table{border-collapse:collapse;width:100%;font-size:.88rem}td,th{text-align:left;vertical-align:top;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line)}
details summary{cursor:pointer;padding:.15rem 0}a{color:var(--acc)}[hidden]{display:none!important}
h2.group{margin:2.2rem 0 .7rem;font-size:1.25rem}
@media (max-width:52rem){body{display:block}nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}}
`

export const DOCS_SCRIPT = `
const box=document.querySelector('#filter');
box.addEventListener('input',()=>{const words=box.value.toLowerCase().split(/\\s+/).filter(Boolean);
for(const el of document.querySelectorAll('[data-find]'))el.hidden=!words.every(w=>el.dataset.find.includes(w));
for(const g of document.querySelectorAll('[data-group]'))g.hidden=![...g.querySelectorAll('[data-find]')].some(e=>!e.hidden)});
document.addEventListener('keydown',e=>{if(e.key==='/'&&document.activeElement!==box){e.preventDefault();box.focus()}});
`
