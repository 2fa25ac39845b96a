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

// Packed, the sources are compiled into dist; in the repository Node strips the types.
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const compiled = join(root, 'dist', 'command.js')
const { main } = await import(pathToFileURL(existsSync(compiled) ? compiled : join(root, 'command.ts')).href)

process.exitCode = await main(process.argv.slice(2), {
  line: (text) => process.stdout.write(`${text}\n`),
  problem: (text) => process.stderr.write(`${text}\n`),
})
