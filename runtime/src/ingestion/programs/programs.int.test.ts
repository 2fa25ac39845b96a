import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { childrenOf } from '@sluice/engine/process-table'
import { until } from '../../../../test/until.ts'
import { Programs } from './programs.ts'

/** Of a process that has ended and was not gathered, too. */
const groupOf = (pid: number | 'self') =>
  Number(/\) \S \d+ (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1])

const allowed = { command: ['/bin/sleep'], arguments: ['600'], folders: [], memory_mb: 64 }
const programs = new Programs({ allowed: () => allowed, charge: () => {}, takeUser: () => null })
const start = () => programs.start({ program: 'sleep', words: [], files: {} }, new AbortController().signal, () => {})

/** Of a session that nobody else has: whoever keeps a room for it, whichever parent they have by now. */
const sessionsOf = () =>
  new Set(
    readdirSync('/proc').flatMap((name) => {
      try {
        return /^\d+$/.test(name) ? [groupOf(Number(name))] : []
      } catch {
        // It has ended.
        return []
      }
    }),
  )

it('a terminal that tells all of the runtime to stop tells no program', {
  skip: process.platform !== 'linux',
}, async () => {
  const before = new Set(childrenOf(process.pid))
  const program = start()
  try {
    const [pid] = childrenOf(process.pid).filter((child) => !before.has(child))
    assert.ok(pid)
    assert.notEqual(groupOf(pid), groupOf('self'))
  } finally {
    program.stop()
    await program.gone
  }
})

it('nothing of a program stays that is stopped at any moment of its start', {
  skip: process.platform !== 'linux',
}, async () => {
  const groups: number[] = []
  for (let waitMs = 0; waitMs < 40; waitMs += 0.5) {
    const before = new Set(childrenOf(process.pid))
    const program = start()
    groups.push(...childrenOf(process.pid).filter((child) => !before.has(child)))
    await sleep(waitMs)
    program.stop()
    await program.gone
  }
  await until('all are gone', () => {
    const left = sessionsOf()
    return groups.every((group) => !left.has(group))
  })
})
