import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { mayBeValue } from './known-value.ts'

/** Of each type values that differ, each in the ways in which sources write it; the first is the form of the key. */
const VALUES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  long: [
    ['9007199254740992', '+9007199254740992', ' 09007199254740992 '],
    ['9007199254740993', '9007199254740993.0'],
    ['-9007199254740993'],
    ['0', '-0', '000', '0.00'],
    ['1000', '1e3'],
  ],
  integer: [['7', '007', '+7', '7.'], ['-7', '-07'], ['70']],
  'decimal(38,2)': [
    ['123456789012345678.10', '123456789012345678.1'],
    ['123456789012345678.11'],
    ['0.50', '.5', '00.5000'],
    ['-0.50', '-.5'],
  ],
  boolean: [
    ['true', 't', 'T', '1'],
    ['false', 'f', 'off'],
  ],
  // Blanks at the end are those of fields of a fixed length; others are letters.
  string: [
    ['a', 'a  '],
    ...['A', '1', '01', '1.0', 'true', 't', ' a', '\ta', 'a\t', 'a\n', 'a\u00a0', 'a\u3000', '\ufeffa', 'a \t'].map(
      (one) => [one],
    ),
    ['', ' '],
    ['\n', '\n '],
  ],
  uuid: [
    [
      '0e1a3e9e-3a5b-4d7c-8b7a-111111111111',
      '{0E1A3E9E-3A5B-4D7C-8B7A-111111111111}',
      '0e1a3e9e3a5b4d7c8b7a111111111111',
    ],
    ['0e1a3e9e-3a5b-4d7c-8b7a-111111111112'],
  ],
  date: [['2026-01-01', '2026-01-01 00:00:00'], ['2026-01-02']],
  timestamp: [
    ['2026-01-01T00:00:00.000001', '2026-01-01 00:00:00.000001'],
    ['2026-01-01T00:00:00.000002'],
    ['2026-01-01T00:00:00.000000', '2026-01-01 00:00', '2026-01-01'],
  ],
  timestamptz: [
    ['2026-01-01T00:00:00.000000Z', '2026-01-01 00:00:00+00', '2026-01-01 02:00:00+02', '2026-01-01T05:30:00+0530'],
    ['2026-01-01T00:00:00.500000Z', '2025-12-31 23:00:00.5-01:00'],
    ['1969-12-31T23:59:59.000000Z', '1970-01-01 00:59:59+01'],
  ],
}

describe('the text of a source is a value', () => {
  for (const [type, values] of Object.entries(VALUES)) {
    it(`of the type ${type}, however it is written, and no other`, () => {
      for (const [text = ''] of values) {
        for (const forms of values) {
          for (const form of forms) {
            const isSame = forms[0] === text
            const found = mayBeValue(form, { text, type: type as LogicalType })
            assert.equal(found, isSame, `${JSON.stringify(form)} for ${text}`)
          }
        }
      }
    })
  }

  it('also where nobody can read it', () => {
    assert.equal(mayBeValue('infinity', { text: '2026-01-01', type: 'date' }), true)
    assert.equal(mayBeValue('ja', { text: 'true', type: 'boolean' }), true)
    assert.equal(mayBeValue('seven', { text: '7', type: 'long' }), false)
  })
})
