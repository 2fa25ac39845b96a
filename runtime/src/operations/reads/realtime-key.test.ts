import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type KeyTemplate, type LogicalType, parseKeyTemplate, renderKey, type Value } from '@sluice/sdk'
import { renderedKey } from './realtime-key.ts'

const TYPES = {
  s: 'string',
  t: 'string',
  i: 'integer',
  l: 'long',
  d: 'decimal(5,2)',
  p: 'decimal(2,2)',
  b: 'boolean',
  day: 'date',
  at: 'timestamp',
  z: 'timestamptz',
  u: 'uuid',
} as const satisfies Readonly<Record<string, LogicalType>>
type Name = keyof typeof TYPES

/** Of each type its values, and how somebody may spell them; the first spelling is the answers'. */
const SPELLED: Readonly<Record<Name, readonly (readonly [Value, ...string[]])[]>> = {
  s: ['', 'plain', 'a:b', '100%', '%3A', 'x-y.z|q', '2024-01-01', '日本', 'a b\n', '-5'].map((text) => [text, text]),
  t: ['', 'other', ':'].map((text) => [text, text]),
  i: [
    [0, '0', '-0', '00'],
    [-7, '-7', '-07'],
  ],
  l: [
    [-9223372036854775808n, '-9223372036854775808'],
    [12n, '12', '+12'],
  ],
  d: [
    ['1.50', '1.50', '1.5', '01.500'],
    ['-0.01', '-0.01'],
    ['0.00', '0.00', '-0.00', '0'],
  ],
  p: [['0.50', '0.50', '0.5']],
  b: [[true, 'true']],
  day: [['2024-02-29', '2024-02-29']],
  at: [['2024-02-29T12:00:00.100000', '2024-02-29T12:00:00.100000', '2024-02-29 12:00:00.1']],
  z: [['2024-02-29T12:00:00.000000Z', '2024-02-29T12:00:00.000000Z', '2024-02-29T13:00+01:00']],
  u: [
    [
      '6f9619ff-8b86-d011-b42d-00c04fc964ff',
      '6f9619ff-8b86-d011-b42d-00c04fc964ff',
      '6F9619FF-8B86-D011-B42D-00C04FC964FF',
    ],
  ],
}
const NAMES = Object.keys(TYPES) as Name[]
const schema = { columns: NAMES.map((name) => ({ name, type: TYPES[name], nullable: false })), primaryKey: [] }
const template = (text: string) => parseKeyTemplate(text) as KeyTemplate

const rendered = (form: string, values: Readonly<Partial<Record<Name, Value>>>) =>
  renderKey(template(form), schema, (column) => values[column as Name] ?? null) as string

test('one value: in every spelling of its type it names the row, and its rendered key stays as it is', () => {
  for (const name of NAMES) {
    for (const form of [`{${name}}`, `v:{${name}}`, `a-{${name}}-z`]) {
      for (const [value, ...spellings] of SPELLED[name]) {
        const key = rendered(form, { [name]: value })
        assert.equal(renderedKey(key, template(form), schema), key, `${form} ${key}`)
        for (const spelling of spellings) {
          const given = form.replace(`{${name}}`, () => spelling)
          // A text that looks like an encoded one is taken for it.
          const wanted = spelling === '%3A' ? given : key
          assert.equal(renderedKey(given, template(form), schema), wanted, `${form} ${spelling}`)
        }
      }
    }
  }
})

test('several values: what is rendered stays, and as they are they name the row, unless they can be read in several ways', () => {
  let found = 0
  for (const one of NAMES) {
    for (const other of NAMES.filter((name) => name !== one)) {
      for (const between of ['-', ':', '.', '|', '::', ' ']) {
        const form = `{${one}}${between}{${other}}`
        for (const [left, leftText] of SPELLED[one]) {
          for (const [right, rightText] of SPELLED[other]) {
            const key = rendered(form, { [one]: left, [other]: right })
            assert.equal(renderedKey(key, template(form), schema), key, `${form} ${key}`)
            const given = `${leftText}${between}${rightText}`
            const made = renderedKey(given, template(form), schema)
            if (made === key) found += 1
            else assert.equal(made, given, `${form} ${given}: another row`)
          }
        }
      }
    }
  }
  assert.ok(found > 2500, `${found}`)
})

test('a key that could be cut in very many ways is not looked at for long', () => {
  const form = '{s}-{l}-{d}-{i}-{t}'
  for (const given of ['-'.repeat(2000), '1-'.repeat(1000), '-1'.repeat(1000)]) {
    assert.equal(renderedKey(given, template(form), schema), given)
  }
})
