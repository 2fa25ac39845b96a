#!/usr/bin/env node
// Plain JavaScript, so that an old Node can read it and say what is wrong.
import { existsSync } from 'node:fs'
import module from 'node:module'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `sluice needs Node 22.18 or newer and this is ${process.versions.node}.\n` +
      'Run it through npm (npm start, npx sluice …) in a checkout after "npm ci", which brings its own Node, or install a newer one.',
  )
  process.exit(2)
}
// Compiled code is kept for the next start, which takes a third of the time. In a folder of this user's own: whoever writes
// there decides what runs here. Where it cannot be written, or the user has no home, nothing is kept.
const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
let kept = process.env.NODE_COMPILE_CACHE || undefined
if (kept === undefined && existsSync(dirname(caches))) {
  kept = join(caches, 'sluice', 'code')
  module.enableCompileCache(kept)
}
// In a checkout the sources run, whatever an interrupted pack has left in dist; a package has none.
const sources = {
  main: new URL('../src/command/main.ts', import.meta.url),
  ownProgram: new URL('../src/command/own-program.ts', import.meta.url),
}
const compiled = {
  main: new URL('../dist/src/command/main.js', import.meta.url),
  ownProgram: new URL('../dist/src/command/own-program.js', import.meta.url),
}
const program = existsSync(sources.main) ? sources : compiled
const { ownProgram } = await import(program.ownProgram.href)
// A server makes its program one file; other commands take the file where it is there.
const { main } = await import(await ownProgram(program.main, kept, process.argv[2] === 'start'))
process.exitCode = await main(process.argv.slice(2))
