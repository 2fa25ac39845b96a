#!/usr/bin/env node
// Plain JavaScript, so that an old Node can read it and say what is wrong.
import { existsSync } from 'node:fs'
import module from 'node:module'

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `sluice needs Node 22.18 or newer and this is ${process.versions.node}.\n` +
      'Run it through npm (npm start, npx sluice …) in a checkout after "npm ci", which brings its own Node, or install a newer one.',
  )
  process.exit(2)
}
// Whoever reads may go, and a disk be full: what is printed is told of that where it matters, and a server goes on without.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
// Said before anything that takes time: on a slow machine it is long until the log is open.
const isStart = process.argv[2] === 'start' && !process.argv.some((word) => word === '--help' || word === '-h')
if (isStart) {
  // The first process of a container is not ended by a signal that it does not take; later the server takes them.
  for (const [signal, number] of Object.entries({ SIGINT: 2, SIGTERM: 15 })) {
    process.on(signal, () => process.listenerCount(signal) === 1 && process.exit(128 + number))
  }
  console.log('Sluice is starting.')
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
const { keepingFolder, ownProgram } = await import(program.ownProgram.href)
// Compiled code is kept for the next start, which takes a third of the time. Node keeps it itself where it was told a folder.
const kept = keepingFolder()
if (kept !== undefined && !process.env.NODE_COMPILE_CACHE) module.enableCompileCache(kept)
// A server makes its program one file; other commands take the file where it is there. One that cannot be loaded keeps nobody
// from starting: the modules say what is wrong, or work.
const file = await ownProgram(program.main, kept, process.argv[2] === 'start', () =>
  console.log('Its program is made of the sources, once after each change of them: that takes some seconds.'),
)
const { main } = await import(file).catch(() => import(program.main.href))
process.exitCode = await main(process.argv.slice(2))
