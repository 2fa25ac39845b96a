import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { faultWords } from './schema-words.ts'

const FORM = '^[a-z]{2}$'
const VALUES: readonly unknown[] = [
  null,
  true,
  -1,
  1e9,
  0.5,
  '',
  'Q',
  'x'.repeat(50),
  [],
  [1, 1],
  {},
  { a: 1, b: 2, c: 3 },
]

/** One for every keyword that schemas of this repository use. */
const SCHEMAS = {
  type: Type.String(),
  list: Type.Array(Type.Integer(), { minItems: 1, maxItems: 1, uniqueItems: true }),
  number: Type.Number({ minimum: 0, maximum: 9 }),
  between: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 9 }),
  text: Type.String({ minLength: 2, maxLength: 9 }),
  form: Type.String({ pattern: FORM, 'x-expected': 'two letters' }),
  described: Type.String({ pattern: FORM, description: 'Two letters.', examples: ['de'] }),
  bare: Type.String({ pattern: FORM }),
  format: Type.String({ format: 'date-time' }),
  enumerated: { enum: ['a', 'b'] },
  constant: Type.Literal('a'),
  union: Type.Union([Type.Literal('a'), Type.Object({ b: Type.String() })]),
  object: Type.Object({ a: Type.String() }, { additionalProperties: false, minProperties: 1, maxProperties: 2 }),
  exclusive: Type.Object({}, { oneOf: [{ required: ['a'] }, { required: ['b'] }] }),
}

describe('what does not fit a schema', () => {
  it('is said without patterns, keywords or values of it', () => {
    for (const [name, schema] of Object.entries(SCHEMAS)) {
      const validator = Compile(schema as Parameters<typeof Compile>[0])
      const faults = VALUES.flatMap((value) => validator.Errors(value).map((fault) => faultWords(fault, schema)))
      assert.ok(faults.length > 0, name)
      for (const words of faults) {
        assert.doesNotMatch(words, /[\^$\\]|oneOf|anyOf|schema|undefined|propert|x{9}/, `${name}: ${words}`)
        assert.match(words, /^(?:must|has|lacks) /, name)
      }
    }
  })

  it('is said in the schema’s own words where a text has a form', () => {
    const of = (schema: object) => {
      const [fault] = Compile(schema as Parameters<typeof Compile>[0]).Errors('Q')
      return fault === undefined ? null : faultWords(fault, schema)
    }
    assert.equal(of(SCHEMAS.form), 'must be two letters')
    assert.equal(of(SCHEMAS.described), 'must be as described: Two letters, as de')
    const forms = [Type.Array(Type.String()), Type.Union([Type.Number(), Type.Boolean()]), Type.Number()]
    const said = (options: Record<string, string>) => {
      const schema = Type.Union(forms, options)
      const found = Compile(schema)
        .Errors('Q')
        .find(({ keyword, schemaPath }) => keyword === 'anyOf' && schemaPath === '#')
      return found === undefined ? null : faultWords(found, schema)
    }
    assert.equal(said({}), 'must be a list or a number or true or false')
    assert.equal(said({ 'x-expected': 'some of it' }), 'must be some of it')
    assert.equal(of(SCHEMAS.bare), 'must be of another form')
  })
})
