import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeptSession } from './kept-session.ts'
import type { Session } from './session.ts'

class Handed {
  readonly cleared = Promise.withResolvers<boolean>()
  isOpen = true

  clear(): Promise<boolean> {
    return this.cleared.promise
  }

  async close(): Promise<void> {
    this.isOpen = false
  }

  goOnFor(): boolean {
    return this.isOpen
  }
}

for (const order of [
  [0, 1, 2],
  [2, 1, 0],
]) {
  test(`of sessions that are given back at the same time one is kept, and none for long (${order})`, async () => {
    const waiting = new Set<() => unknown>()
    const every = (_: number, run: () => unknown) => {
      waiting.add(run)
      return () => void waiting.delete(run)
    }
    const kept = new KeptSession({ nowMs: Date.now, every })
    const sessions = [new Handed(), new Handed(), new Handed()]
    const given = sessions.map((session) => kept.giveBack(session as unknown as Session))
    for (const at of order) sessions[at]?.cleared.resolve(true)
    await Promise.all(given)
    const open = sessions.filter(({ isOpen }) => isOpen)
    assert.deepEqual([open.length, waiting.size], [1, 1])
    for (const isOver of waiting) await isOver()
    assert.ok(sessions.every(({ isOpen }) => !isOpen))
    assert.equal(waiting.size, 0)
    assert.equal(kept.take(new AbortController().signal), null)
  })
}
