import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { promisify } from 'node:util'
import { openMasterKeyFile } from './master-keys.ts'

const run = promisify(execFile)
const NAMES = Array.from({ length: 40 }, (_, index) => `mk_${index}`)

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-masters-'))
  file = join(folder, 'master-keys.json')
  const keys = Object.fromEntries(NAMES.map((name) => [name, Buffer.alloc(32, name).toString('base64')]))
  writeFileSync(file, JSON.stringify({ current: NAMES[0], keys }), { mode: 0o600 })
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('a disk that takes a part of the new file leaves the former one as it was, and nothing beside it', async () => {
  const before = readFileSync(file, 'utf8')
  const program = `
    const { openMasterKeyFile } = await import(${JSON.stringify(import.meta.resolve('./master-keys.ts'))})
    openMasterKeyFile(${JSON.stringify(file)}).replace(${JSON.stringify(NAMES)})`
  // In blocks of 512 bytes, or of 1,024: a part of what 40 keys take.
  const limited = ['-c', 'ulimit -f 2 && exec "$0" --input-type=module -e "$1"', process.execPath, program]
  await assert.rejects(run('/bin/sh', limited), /master_key_file_unwritable/)
  assert.equal(readFileSync(file, 'utf8'), before)
  assert.deepEqual(readdirSync(folder), ['master-keys.json'])
})

test('what a process that was killed while it made the file has left is gone with the next rotation', () => {
  writeFileSync(`${file}.0123456789ab`, readFileSync(file))
  writeFileSync(`${file}.kept`, 'by somebody')
  openMasterKeyFile(file).replace([])
  assert.deepEqual(readdirSync(folder).sort(), ['master-keys.json', 'master-keys.json.kept'])
  assert.equal(Object.keys(JSON.parse(readFileSync(file, 'utf8')).keys).length, 2)
})
