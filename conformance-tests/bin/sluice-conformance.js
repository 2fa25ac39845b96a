#!/usr/bin/env node
// Plain JavaScript, so that an old Node gets a sentence and no syntax error.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(`sluice-conformance needs Node 22.18 or newer, and this is ${process.versions.node}\n`)
  process.exit(2)
}

// In the repository Node strips the types, whatever an interrupted pack has left in dist; a package has no sources.
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const source = join(root, 'command.ts')
const { main } = await import(pathToFileURL(existsSync(source) ? source : join(root, 'dist', 'command.js')).href)

process.exitCode = await main(process.argv.slice(2), {
  line: (text) => process.stdout.write(`${text}\n`),
  problem: (text) => process.stderr.write(`${text}\n`),
})
