import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TableMetadata } from '../format/metadata.ts'
import { fromIceberg, toIceberg } from '../format/table-schema.ts'
import { commented } from './column-comments.ts'

const TYPES = ['integer', 'json', 'string', 'decimal(9,2)', 'timestamptz'] as const

/** Columns 1, 2 … named by their ids, of each type. */
const schema = (schemaId: number, names: readonly string[]) => ({
  schemaId,
  fields: names.map((name, index) => ({
    id: index + 1,
    name,
    type: TYPES[index % TYPES.length] ?? 'string',
    nullable: true,
  })),
  identifierFieldIds: [],
})

const NOW = schema(1, ['a', 'b', 'c', 'd', 'e'])
const FORMER = schema(0, ['a_before', 'b'])
const METADATA = {
  'current-schema-id': 1,
  schemas: [toIceberg(FORMER), toIceberg(NOW)],
  properties: { kept: 'as it is' },
} as unknown as TableMetadata

const docsOf = ({ schemas }: TableMetadata) => schemas.map(({ fields }) => fields.map(({ doc }) => doc))

test('columns are told of by their ids, in the schemas of then as well, and documents stay documents', () => {
  const told = commented(METADATA, new Map([...'abe', 'gone'].map((name) => [name, `class ${name}`])))
  assert.deepEqual(docsOf(told), [
    ['class a', 'json; class b'],
    ['class a', 'json; class b', undefined, undefined, 'class e'],
  ])
  const shapes = told.schemas.map((one) => ({ ...schema(0, []), ...fromIceberg(one), comments: undefined }))
  const former = [FORMER, NOW].map((one) => ({ ...one, comments: undefined }))
  assert.deepEqual(shapes, former, 'types, names and ids are as they were')
  assert.deepEqual({ ...told, schemas: METADATA.schemas }, METADATA)
  assert.deepEqual(docsOf(METADATA)[0], [undefined, 'json'], 'the table has none of it')
})

test('a comment that is told again takes the place of the one before', () => {
  const once = commented(METADATA, new Map([...'abcde'].map((name) => [name, 'class one'])))
  const twice = commented(once, new Map([...'abcde'].map((name) => [name, 'class other'])))
  assert.deepEqual(docsOf(twice)[1], ['class other', 'json; class other', 'class other', 'class other', 'class other'])
})

test('a string of other writers is no document, whatever its comment begins with', () => {
  for (const doc of ['jsonish', 'json text', ' json', 'JSON', 'json,', 'json; of theirs', 'class json; x']) {
    const [field] = fromIceberg({
      ...toIceberg(NOW),
      fields: [{ id: 1, name: 'a', required: false, type: 'string', doc }],
    }).fields
    assert.equal(field?.type, 'string', doc)
  }
})

test('what the table itself says of its columns is not told beside it', () => {
  const comments = { 1: 'class of then; masked: hash', 3: 'class of then' }
  const own = { ...METADATA, schemas: [toIceberg({ ...FORMER, comments }), toIceberg({ ...NOW, comments })] }
  assert.deepEqual(docsOf(commented(own as TableMetadata, new Map([['c', 'class now']]))), [
    [undefined, 'json'],
    [undefined, 'json', 'class now', undefined, undefined],
  ])
})
