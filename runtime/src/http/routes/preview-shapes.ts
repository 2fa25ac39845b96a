/** What a preview looks like, and how it is told. */
import { Type } from 'typebox'
import type { Preview as PreviewAnswer } from '../../operations/previews/preview.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import type { Reply } from '../route.ts'
import { qualityJson } from './json/quality.ts'

const count = (description?: string) =>
  Type.Integer({ minimum: 0, ...(description === undefined ? {} : { description }) })
const nullableText = (description: string) => Type.Union([Type.String({ description }), Type.Null()])

const Violating = Type.Object(
  {
    columns: Type.Array(Type.String()),
    masked_columns: Type.Array(Type.String()),
    rows: Type.Array(Type.Array(Type.Union([Type.String(), Type.Null()])), { maxItems: 100 }),
  },
  {
    description:
      'The first rows that the check found bad, as texts, masked as the rows are. Null: it found none, speaks of no rows, or looks at what is hidden from you.',
  },
)

export const Preview = Type.Object(
  {
    digest: Type.String({ description: 'Of the draft.' }),
    columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String(), masked: Type.Boolean() })),
    rows: Type.Array(Type.Array(Type.Unknown()), {
      description: 'Without those that checks would put aside. Values as answers to queries tell them.',
    }),
    row_count: count('Of the rows of this answer.'),
    sample: Type.Object(
      {
        whole: Type.Boolean({
          description:
            'True: of all rows of the inputs. False: each row is made of one row of the only input, and the first of those were taken that `where` lets through.',
        }),
        input_rows: Type.Union([count('Taken, at most.'), Type.Null()]),
        rows_given: count('That a run would publish of these, of which `rows` are the first.'),
      },
      { description: 'What the rows were made of.' },
    ),
    inputs: Type.Array(
      Type.Object({
        input: Type.String(),
        connection: Type.Optional(Type.String()),
        table: Type.Optional(Type.String()),
        product: Type.Optional(Type.String({ description: 'In place of connection and table: namespace.name.' })),
        snapshot_id: Type.String(),
        epoch: Type.Union([count('Of a product.'), Type.Null()]),
        read_at: nullableText('Since when its rows are. Null: nobody knows.'),
      }),
      { description: 'The newest state of each, which the rows were made of.' },
    ),
    checks: Type.Array(
      Type.Object({
        name: Type.String(),
        severity: Type.String(),
        dimension: Type.String(),
        weight: Type.Number(),
        on_error: Type.String(),
        passed: Type.Boolean(),
        learning: Type.Boolean({ description: 'Always false: checks that learn are left out.' }),
        measured: Type.Null(),
        compared: Type.Null({ description: 'A preview compares with no version.' }),
        violations: Type.Union([Type.Number(), Type.Null()]),
        total: Type.Union([Type.Number(), Type.Null()]),
        violating: Type.Union([Violating, Type.Null()]),
      }),
      { description: 'Their results on all rows that the transform gave here: those that you may know of.' },
    ),
    checks_left_out: Type.Array(Type.String(), {
      description:
        'Checks that only all rows of the product can answer, where the sample is not whole; and those that learn from its epochs.',
    }),
    problems: Type.Array(
      Type.Object({ code: Type.String(), message: Type.String(), remedy: nullableText('What to do about it.') }),
      { description: 'What would keep a run from publishing these rows.' },
    ),
  },
  { $id: 'Preview' },
)

/** The rows pass through as the engine wrote them: no digit of theirs is read here. */
export function previewReply(preview: PreviewAnswer): Reply {
  const { digest, columns, rowsJson, told, inputRows, given, inputs, checks, violating, leftOut, problems } = preview
  const before = JSON.stringify({ digest, columns })
  const after = JSON.stringify({
    row_count: told,
    sample: { whole: inputRows === null, input_rows: inputRows, rows_given: given },
    inputs: inputs.map(inputJson),
    checks: qualityJson({ checks, by_dimension: {} }, violating)?.checks ?? [],
    checks_left_out: leftOut,
    problems,
  })
  return { json: `${before.slice(0, -1)},"rows":[${rowsJson}],${after.slice(1)}` }
}

function inputJson({ input, state, upstream, readAt }: PreviewAnswer['inputs'][number]) {
  const { name, connection, table } = input
  return {
    input: name,
    ...(connection === PRODUCTS ? { product: table } : { connection, table }),
    snapshot_id: state.snapshotId,
    epoch: upstream?.epoch ?? null,
    read_at: readAt ?? null,
  }
}
