import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { loadConfig } from '../config.ts'
import { tellProcesses } from './door.ts'

/** What is said of so many processes, by level. */
function said(processes: number, engines: number): readonly string[] {
  const told: string[] = []
  const note = (level: string) => (message: string) => void told.push(`${level}: ${message}`)
  const config = loadConfig({ environment: {}, flags: {} })
  const limits = { ...config.limits, engine_processes: engines }
  const logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
  tellProcesses({ ...config, http: { processes }, limits }, logger)
  return told
}

test('who configures several processes is told of what he may not expect', () => {
  const cores = availableParallelism()
  assert.deepEqual(said(1, 1), [])
  assert.deepEqual(said(cores, 2 * cores), [])
  const more = said(cores + 1, 2 * cores + 2)
  assert.match(more.join('\n'), /^warn: more processes serve HTTP than this machine has processor cores$/)
  assert.match(said(2, 3).at(-1) ?? '', /^info: each process that serves has two engine processes at least/)
})
