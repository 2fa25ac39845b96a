import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChangeVerdict, nextVersion } from './next-version.ts'

test('the next version is above all that were, by what changes', () => {
  for (const [verdict, known, current, next] of [
    ['compatible', [], null, '1.0.0'],
    ['breaking', [], null, '1.0.0'],
    ['compatible', ['1.0.0'], '1.0.0', '1.0.1'],
    ['additive', ['1.0.3'], '1.0.3', '1.1.0'],
    ['breaking', ['1.1.2'], '1.1.2', '2.0.0'],
    ['breaking', ['0.3.0'], '0.3.0', '1.0.0'],
    // Rolled back: 1.1.0 was something else.
    ['additive', ['1.1.0', '1.0.0'], '1.0.0', '1.2.0'],
    ['compatible', ['9.0.0', '10.0.0'], '9.0.0', '10.0.1'],
    ['compatible', ['1.2.0-rc.1'], '1.2.0-rc.1', '1.2.0'],
    // The server asks for a greater major number.
    ['breaking', ['2.0.0-rc.1'], '2.0.0-rc.1', '3.0.0'],
  ] satisfies readonly (readonly [ChangeVerdict, string[], string | null, string])[]) {
    assert.equal(nextVersion(verdict, known, current), next, `${verdict} after ${known.join(', ')}`)
  }
})
