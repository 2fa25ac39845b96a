import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inZones } from './machine-zone.ts'

const now = () => [process.env['TZ'], new Date(0).getHours()]

test('the machine has its own zone again, also where several overlap and where they fail', async () => {
  const own = now()
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const seen: unknown[] = []
  const one = inZones(['Pacific/Kiritimati'], async () => {
    seen.push(now())
    await first.promise
  })
  const other = inZones(['America/St_Johns'], () => second.promise)
  first.resolve()
  await one
  second.reject(new Error('no'))
  await assert.rejects(other, /no/)
  // In 1970 that island was still ten hours and forty minutes behind.
  assert.deepEqual(seen, [['Pacific/Kiritimati', 13]])
  assert.deepEqual(now(), own)
})
