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
// Compiled code is kept for the next start, which takes a third less time. In a folder of this user's own: whoever writes
// there decides what runs here. Where it cannot be written, or the user has no home, nothing is kept.
const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
if (!process.env.NODE_COMPILE_CACHE && existsSync(dirname(caches))) {
  module.enableCompileCache(join(caches, 'sluice', 'code'))
}
// In a checkout the sources run, whatever an interrupted pack has left in dist; a package has none.
const source = new URL('../src/command/main.ts', import.meta.url)
const { main } = await import(
  existsSync(source) ? source.href : new URL('../dist/src/command/main.js', import.meta.url).href
)
process.exitCode = await main(process.argv.slice(2))
