import assert from 'node:assert/strict'
import { describe as group, it } from 'node:test'
import fc from 'fast-check'
import {
  type DescribedProduct,
  describe,
  digestOf,
  type ProductAnswer,
  schemaLine,
} from '../../operations/products/product-schema.ts'
import {
  column,
  hostileProduct,
  hostileProducts,
  hostileText,
  key,
  product,
  TYPES,
} from '../../operations/products/products.fixture.ts'
import { readingsOf } from '../../operations/products/readings.ts'
import { differencesOf } from './differences.ts'
import { headText, readHead } from './file-head.ts'
import { commentText, pythonText, scriptText, TypeNames } from './names.ts'
import { pythonClient } from './python-client.ts'
import { scriptClient } from './script-client.ts'

const MASKS = ['hash', 'redact', 'partial', 'null'] as const

/** Members of the first declaration of a row, as they stand in the file: `name: type`. */
function scriptRow(products: readonly DescribedProduct[], type: string): Readonly<Record<string, string>> {
  const [, body = ''] = scriptClient(products).split(`export type ${type} = {\n`)
  const lines = body.slice(0, body.indexOf('\n}')).matchAll(/^ {2}readonly "([^"]+)": (.*)$/gm)
  return Object.fromEntries([...lines].map(([, name = '', told = '']) => [name, told]))
}

function pythonRow(products: readonly DescribedProduct[], type: string): Readonly<Record<string, string>> {
  const [, body = ''] = pythonClient(products).split(`\n${type} = TypedDict("${type}", {\n`)
  const lines = body.slice(0, body.indexOf('\n}')).matchAll(/^ {4}"([^"]+)": (.*),$/gm)
  return Object.fromEntries([...lines].map(([, name = '', told = '']) => [name, told]))
}

group('types', () => {
  const name = (type: string): string => `c_${type.replace(/\W.*/, '')}`
  const plain = TYPES.map((type) => column(name(type), type, { nullable: false }))

  it('are those that answers tell values by, of each logical type', () => {
    const made = [describe(product('a.b', plain))]
    assert.deepEqual(scriptRow(made, 'ABRow'), {
      ...{ c_string: 'string', c_boolean: 'boolean', c_integer: 'number', c_long: 'Long', c_float: 'Double' },
      ...{ c_double: 'Double', c_decimal: 'Decimal', c_date: 'DateText', c_timestamp: 'Timestamp' },
      ...{ c_timestamptz: 'TimestampTz', c_uuid: 'Uuid', c_binary: 'Base64', c_json: 'Json' },
    })
    assert.deepEqual(pythonRow(made, 'ABRow'), {
      ...{ c_string: 'str', c_boolean: 'bool', c_integer: 'int', c_long: 'Long', c_float: 'Double' },
      ...{ c_double: 'Double', c_decimal: 'Decimal', c_date: 'DateText', c_timestamp: 'Timestamp' },
      ...{ c_timestamptz: 'TimestampTz', c_uuid: 'Uuid', c_binary: 'Base64', c_json: 'Json' },
    })
    const text = scriptClient(made)
    for (const declared of [
      'type Long = number | string',
      'type Decimal = string',
      "type Double = number | 'NaN' | 'Infinity' | '-Infinity'",
    ])
      assert.ok(text.includes(`export ${declared}\n`), declared)
  })

  it('have null where a value may be missing, by the mask and not by the column alone', () => {
    for (const nullable of [false, true]) {
      const masked = MASKS.map((mask) => column(mask, 'string', { nullable, mask }))
      const made = [describe(product('a.b', [column('clear', 'string', { nullable }), ...masked]))]
      const string = nullable ? 'string | null' : 'string'
      assert.deepEqual(scriptRow(made, 'ABRow'), {
        ...{ clear: string, hash: string, redact: 'string', partial: 'string', null: 'null' },
      })
      const str = nullable ? 'Optional[str]' : 'str'
      assert.deepEqual(pythonRow(made, 'ABRow'), {
        ...{ clear: str, hash: str, redact: 'str', partial: 'str', null: 'None' },
      })
    }
  })

  it('leave out what is omitted, and say so, with class and mask of the others', () => {
    const columns = [
      key('id', 'integer'),
      column('email', 'string', { classification: 'pii.email', mask: 'hash', description: 'Of */ the person' }),
      column('secret', 'string', { classification: 'pii.secret', mask: 'omit' }),
    ]
    const made = [describe(product('crm.people', columns))]
    assert.deepEqual(Object.keys(scriptRow(made, 'CrmPeopleRow')), ['id', 'email'])
    for (const text of [scriptClient(made), pythonClient(made)]) {
      assert.match(
        text,
        /string, class pii\.email, masked for you by hash: equal values stay equal\. Of \* \/ the person/,
      )
      assert.match(text, /Columns that you are not shown: secret\./)
    }
  })

  it('of a lookup with a history have what it adds, masked as its column is', () => {
    const schema = [key('id', 'integer'), column('city', 'string'), column('born', 'date', { mask: 'null' })]
    const of = (history_mode: string) => {
      const config = { index_columns: ['id'], history_mode, tracked_columns: ['city', 'born'] }
      return [describe(product('a.b', schema, [{ type: 'lookup', config }]))]
    }
    const two = scriptRow(of('type_2'), 'ABLookupRow')
    assert.deepEqual(
      [two['valid_from'], two['valid_to'], two['is_current']],
      ['TimestampTz', 'TimestampTz | null', 'boolean'],
    )
    const three = scriptRow(of('type_3'), 'ABLookupRow')
    assert.deepEqual([three['previous_city'], three['previous_born']], ['string | null', 'null'])
    assert.match(scriptClient(of('type_2')), /Lookup<ABLookupRow, ABKey, "id", HistoryOptions>/)
    assert.doesNotMatch(scriptClient(of('type_3')), /Lookup<.*HistoryOptions>/)
  })
})

group('ways to read', () => {
  const config = { key_template: 'p:{id}', include_columns: ['city'] }
  const both = [
    { type: 'lookup', config: { index_columns: ['id', 'email', 'city'], history_mode: 'current' } },
    { type: 'realtime', config },
  ]
  const of = (mask: string | null, email: string | null = 'hash') =>
    readingsOf(
      describe(
        product(
          'a.b',
          [key('id', 'string', { mask }), column('email', 'string', { mask: email }), column('city', 'string')],
          both,
        ),
      ).schema,
    )

  it('are keyed and filtered by what the caller sees in clear', () => {
    const clear = of(null)
    assert.deepEqual(
      clear.lookup?.key?.map(({ name }) => name),
      ['id'],
    )
    assert.deepEqual(
      clear.lookup?.filters.map(({ name }) => name),
      ['id', 'city'],
    )
    assert.deepEqual([clear.realtime?.row.map(({ name }) => name), clear.closed], [['city'], []])
  })

  it('are closed where the key is masked, but for rows and changes that a hash still tells apart', () => {
    const hashed = of('hash')
    assert.deepEqual([hashed.lookup?.key, hashed.realtime], [null, null])
    assert.deepEqual(
      hashed.changes?.map(({ name }) => name),
      ['id'],
    )
    const redacted = of('redact')
    assert.deepEqual([redacted.lookup?.key, redacted.realtime, redacted.changes], [null, null, null])
    assert.deepEqual(
      redacted.lookup?.filters.map(({ name }) => name),
      ['city'],
    )
    assert.deepEqual(redacted.closed.length, 3)
    assert.deepEqual([of('omit').changes, of('omit').lookup?.key], [null, null])
    const history = { index_columns: ['id'], history_mode: 'type_2', tracked_columns: ['city'] }
    const kept = (mask: string) =>
      describe(product('a.b', [key('id', 'string', { mask })], [{ type: 'lookup', config: history }]))
    assert.equal(readingsOf(kept('redact').schema).lookup, null)
    assert.equal(readingsOf(kept('hash').schema).lookup?.key, null)
    const timed = (mask: string | null, config: Readonly<Record<string, unknown>>) =>
      readingsOf(
        describe(
          product('a.b', [column('at', 'date', { mask }), column('on', 'date')], [{ type: 'timeseries', config }]),
        ).schema,
      ).timeseries
    assert.equal(timed('null', {}), null)
    assert.deepEqual(
      timed('null', { time_column: 'on' })?.filters.map(({ name }) => name),
      ['on'],
    )
    assert.notEqual(timed(null, {}), null)
  })

  it('are those that the version in service declares', () => {
    const bare = readingsOf(describe(product('a.b', [column('x', 'string')])).schema)
    assert.deepEqual([bare.lookup, bare.realtime, bare.timeseries, bare.changes], [null, null, null, null])
    const text = scriptClient([describe(product('a.b', [column('x', 'string')]))])
    assert.match(text, /readonly "a\.b": \{\n {4}readonly table: Table<ABRow>\n {2}\}/)
  })
})

group('names and words', () => {
  it('of types stay apart, and from all that the file has besides', () => {
    const products = ['a.b_c', 'a_b.c', 'a.b-c', 'sluice.client', '1.2', 'é.é', 'lo.ng'].map((full) =>
      describe(product(full, [key('id', 'integer')], [{ type: 'lookup', config: {} }])),
    )
    for (const text of [scriptClient(products), pythonClient(products)]) {
      const declared = [...text.matchAll(/^(?:export type )?([A-Z]\w*Row\w*) = /gm)].map(([, name = '']) => name)
      assert.equal(declared.length, products.length)
      assert.equal(new Set(declared).size, declared.length)
      assert.equal(declared.filter((name) => /^ABCRow_[0-9a-f]{8}$/.test(name)).length, 3, String(declared))
    }
    const names = new TypeNames('class LongRow', ['lo.ng', 'long', 'a.b_lookup', 'a.b'])
    assert.match(names.take('lo.ng', 'Row'), /^LoNgRow$/)
    assert.match(names.take('long', 'Row'), /^LongRow_[0-9a-f]{8}$/)
    assert.equal(names.take('a.b_lookup', 'Row'), 'ABLookupRow')
    assert.match(names.take('a.b', 'LookupRow'), /^ABLookupRow_[0-9a-f]{8}$/)
  })

  it('are told with signs that are seen, on one line', () => {
    fc.assert(
      fc.property(hostileText, (text) => {
        for (const one of [scriptText(text), pythonText(text), commentText(text)]) {
          assert.doesNotMatch(one, /[^ -~\p{L}\p{M}\p{N}\p{P}\p{S}]|\p{Cs}/u)
        }
        assert.ok(!commentText(text).includes('*/'))
        // A literal of ours is one of JSON too.
        assert.equal(JSON.parse(scriptText(text)), text)
      }),
    )
  })
})

group('the head of a file', () => {
  it('has the schemas that the file was made by, of any products', () => {
    fc.assert(
      fc.property(fc.array(hostileProduct, { maxLength: 4 }), (answers) => {
        const products = answers.map((answer) => describe(answer).schema)
        for (const language of ['ts', 'python'] as const) {
          const text = `${headText({ language, products })}\nrest`
          assert.match(text, /^[\x20-\x7e\n]*$/)
          const read = readHead(text)
          assert.equal(read?.language, language)
          assert.deepEqual(new Set(read?.products.map(schemaLine)), new Set(products.map(schemaLine)))
        }
      }),
    )
  })

  it('is found in whole files, with the digest that they tell', () => {
    const products = hostileProducts(20).map(describe)
    const digest = digestOf(products.map(({ schema }) => schema))
    for (const text of [scriptClient(products), pythonClient(products)]) {
      assert.equal(digestOf(readHead(text)?.products ?? []), digest)
      assert.ok(text.includes(`SCHEMA_DIGEST = "${digest}"`))
      assert.equal(digestOf(readHead(text.replaceAll('\n', '\r\n'))?.products ?? []), digest)
    }
  })

  it('is not taken for one where it was changed, is of another form, or is none', () => {
    const text = scriptClient([describe(product('a.b', [column('x', 'string')]))])
    assert.throws(() => readHead(text.replace('"x"', '"y"')), /not as they were written/)
    assert.throws(() => readHead(text.replace('{"namespace"', '{')), /not as they were written/)
    assert.throws(() => readHead(text.replace('sluice-client 1', 'sluice-client 2')), /newer/)
    for (const other of ['', 'export {}\n', '#!/usr/bin/env python\nimport json\n']) assert.equal(readHead(other), null)
  })

  it('has the same digest whatever the order of products, the version, the class and the words', () => {
    const [one, two] = [product('a.b', [column('x', 'string')]), product('a.c', [column('x', 'string')])]
    const digest = (...answers: readonly ProductAnswer[]) => digestOf(answers.map((answer) => describe(answer).schema))
    assert.equal(digest(one, two), digest(two, one))
    const said = { description: 'else', current_version: '1.0.1' }
    const words = { ...one, ...said, schema: [column('x', 'string', { description: 'y', classification: 'internal' })] }
    assert.equal(digest(words, two), digest(one, two))
    assert.notEqual(digest(one), digest(two))
  })
})

group('differences', () => {
  const endpoints = [
    { type: 'lookup', config: { index_columns: ['id', 'city'], history_mode: 'current' } },
    { type: 'timeseries', config: { time_column: 'n', continuous_aggregates: [{ interval: '1 day', columns: [] }] } },
  ]
  const base = product('a.b', [key('id', 'integer'), column('city', 'string'), column('n', 'long')], endpoints)
  const found = (after: Partial<ProductAnswer> | null) =>
    differencesOf(describe(base).schema, after && describe({ ...base, ...after }).schema).map(
      ({ breaking, message }) => `${breaking ? 'breaking' : 'other'}: ${message}`,
    )
  const [id, city, n] = base.schema as [never, never, never]

  it('are none of what is the same, and each of what is not', () => {
    assert.deepEqual(found({ current_version: '1.1.0', description: 'else' }), [])
    for (const [after, said] of [
      [null, ['breaking: it is not in service any more, or you may not read it']],
      [{ schema: [id, city] }, ['breaking: the column n is gone']],
      [{ schema: [id, city, n, column('m', 'date')] }, ['other: the column m is new: date']],
      [{ schema: [id, city, column('n', 'string')] }, ['breaking: the column n: type: long before, string now']],
      [{ schema: [id, city, column('n', 'long', { nullable: false })] }, ['other: the column n is never null now']],
      [
        { schema: [id, column('city', 'string', { mask: 'redact' }), n] },
        ['breaking: the column city: shown to you: in clear before, masked (redact) now'],
      ],
      [
        { schema: [id, column('city', 'string', { mask: 'omit' }), n] },
        ['breaking: the column city: shown to you: in clear before, not at all now'],
      ],
      [
        { schema: [id, key('city', 'string', { nullable: true }), n] },
        ['breaking: the column city: part of the key: no before, yes now'],
      ],
      [{ schema: [city, id, n] }, ['other: its columns stand in another order, or others are not shown']],
      [{ endpoints: endpoints.slice(1) }, ['breaking: the endpoint lookup is gone']],
      [
        { endpoints: [...endpoints, { type: 'realtime', config: { key_template: '{id}' } }] },
        ['other: the endpoint realtime is new'],
      ],
      [
        { endpoints: [{ type: 'lookup', config: { index_columns: ['id'] } }, endpoints[1] as never] },
        ['breaking: the endpoint lookup: by: id, city before, id now'],
      ],
      [
        { endpoints: [{ type: 'lookup', config: { index_columns: ['id', 'city', 'n'] } }, endpoints[1] as never] },
        ['other: the endpoint lookup: by: id, city before, id, city, n now'],
      ],
    ] as const) {
      assert.deepEqual(found(after as Partial<ProductAnswer> | null), said)
    }
  })

  it('are there exactly where the digest is another', () => {
    fc.assert(
      fc.property(hostileProduct, hostileProduct, fc.boolean(), (one, other, isOther) => {
        const before = describe(one).schema
        const after = describe({ ...(isOther ? other : one), namespace: one.namespace, name: one.name }).schema
        assert.equal(differencesOf(before, after).length === 0, digestOf([before]) === digestOf([after]))
      }),
    )
  })
})
