/** Lineage as JSON, with its schemas. */
import { type TSchema, Type } from 'typebox'
import { type Impact, READ_DAYS, type ReachedProduct } from '../../operations/lineage/impact.ts'
import type { ColumnLineage, Lineage, LineageNode, Place } from '../../operations/lineage/lineage.ts'
import { MAX_DEPTH, MAX_NODES } from '../../operations/lineage/links.ts'
import { MANNERS } from '../../operations/lineage/spread.ts'
import { InNamespace } from './requests/paths.ts'

const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])
const text = (description?: string) => Type.String(description === undefined ? {} : { description })
const NODE = '`product:namespace.name`, or `table:connection/schema.table`.'

export const LineageQuery = Type.Object(
  {
    ...InNamespace.properties,
    direction: Type.Optional(
      Type.Union([Type.Literal('upstream'), Type.Literal('downstream'), Type.Literal('both')], { default: 'both' }),
    ),
    depth: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MAX_DEPTH, default: MAX_DEPTH, description: 'Steps from the product.' }),
    ),
  },
  { additionalProperties: false },
)

const PlaceShape = { node: text(NODE), column: text('In lower case.') }

const ProductInLineage = {
  id: text(),
  namespace: text(),
  name: text(),
  version: nullable(text('In service; null: there is none.')),
  owner: Type.Object({ team: nullable(text()), email: nullable(text()) }),
  classification: text(),
}

const Column = Type.Object({
  name: text(),
  type: text(),
  classification: text(),
  masked: nullable(Type.Boolean({ description: 'For you; null: you may not read the product.' })),
  known: Type.Boolean({
    description:
      'False: nothing says what the column is made of, or a part of it is not there for you. What is told is then not all.',
  }),
  from: Type.Array(
    Type.Object({
      ...PlaceShape,
      kind: Type.Union([Type.Literal('copied'), Type.Literal('computed')], {
        description: 'Copied: the column has its values, unchanged.',
      }),
    }),
    {
      description:
        'What its values are computed from: nothing is left out, and a name that several inputs have is taken for each of them. Nodes may lie beyond those of the answer.',
    },
  ),
  influenced_by: Type.Array(Type.Object(PlaceShape), {
    description:
      'What decides which rows there are, how often, or in which order: joins, filters, groups. Names are taken as in from.',
  }),
})

export const LineageShape = Type.Object(
  {
    root: text(NODE),
    nodes: Type.Array(
      Type.Object({
        node: text(NODE),
        kind: Type.Union([Type.Literal('product'), Type.Literal('table')]),
        steps: Type.Integer({
          description: 'From the product that was asked for, by the shortest way; upstream negative.',
        }),
        product: Type.Optional(Type.Object(ProductInLineage)),
        connection: Type.Optional(text('Of a table.')),
        table: Type.Optional(text('Of a table: schema.table.')),
        columns: Type.Optional(
          nullable(
            Type.Array(Column, { description: 'Of a product. Null: an answer holds no more; ask for that product.' }),
          ),
        ),
      }),
    ),
    edges: Type.Array(
      Type.Object({
        from: text(),
        to: text('A product that is made of it.'),
        input: text('The alias that it has there.'),
      }),
    ),
    truncated: Type.Boolean({
      description: `There is more: farther away than depth, or beyond the ${MAX_NODES} nodes or the columns that an answer holds.`,
    }),
  },
  { $id: 'Lineage' },
)

const placeJson = ({ node, column }: Place) => ({ node, column })

export function lineageJson({ root, nodes, edges, truncated }: Lineage) {
  return { root, nodes: nodes.map(nodeJson), edges, truncated }
}

function nodeJson({ node, steps, product, table, columns }: LineageNode) {
  if (product === null) return { node, kind: 'table', steps, connection: table?.connection, table: table?.table }
  return {
    node,
    kind: 'product',
    steps,
    product: productInLineageJson(product),
    columns: columns?.map(columnJson) ?? null,
  }
}

function productInLineageJson(product: NonNullable<LineageNode['product']>) {
  const { id, domain: namespace, name, version, owner, classification } = product
  return { id, namespace, name, version, owner, classification }
}

function columnJson({ influencedBy, ...column }: ColumnLineage) {
  return { ...column, influenced_by: influencedBy }
}

const ColumnName = Type.String({ minLength: 1, maxLength: 500 })

export const ImpactQuery = Type.Object(
  { ...InNamespace.properties, column: ColumnName },
  { additionalProperties: false },
)

export const SourceImpactQuery = Type.Object(
  {
    table: Type.String({ minLength: 1, maxLength: 500, description: 'schema.table, or a table of the schema public.' }),
    column: ColumnName,
  },
  { additionalProperties: false },
)

export const ImpactShape = Type.Object(
  {
    of: Type.Object(PlaceShape),
    products: Type.Array(
      Type.Object({
        ...ProductInLineage,
        steps: Type.Integer({ description: 'The least of its columns.' }),
        columns: Type.Array(
          Type.Object({
            name: text(),
            classification: text(),
            masked: nullable(Type.Boolean({ description: 'For you; null: you may not read the product.' })),
            steps: Type.Integer({ description: 'By the shortest way.' }),
            manner: Type.Union(
              MANNERS.map((manner) => Type.Literal(manner)),
              {
                description:
                  'By the closest way: it has the values unchanged; they are computed from them; rows depend on them; nobody knows that it does not.',
              },
            ),
          }),
        ),
        reads_recorded: Type.Union([Type.Literal('everybody'), Type.Literal('administrators')], {
          description:
            'Whose reads the audit log keeps: of a restricted product everybody’s, of others those of administrators alone. As the product is classified now: before it was restricted, others were not recorded.',
        }),
      }),
    ),
    readers: nullable(
      Type.Object(
        {
          days: Type.Integer({ description: 'How far back.' }),
          data: Type.Array(
            Type.Object({
              product_id: text(),
              issuer: text(),
              subject: text(),
              reads: Type.Integer(),
              last_at: Type.String({ format: 'date-time' }),
              actions: Type.Array(text('read.lookup, read.query, …')),
            }),
          ),
          truncated: Type.Boolean(),
        },
        {
          description:
            'Who read these products, as far as reads are recorded; null for who may not see the audit log. Which columns somebody read is not kept, nor what was read of files after they were given. What agents were told is on record by tool, and is not counted here.',
        },
      ),
    ),
    truncated: Type.Boolean({ description: 'There is more than an answer holds.' }),
  },
  { $id: 'Impact' },
)

export function impactJson({ of, products, readers, truncated }: Impact) {
  return {
    of: placeJson(of),
    products: products.map(reachedProductJson),
    readers: readers && {
      days: READ_DAYS,
      data: readers.found.map(({ productId, reader, reads, lastAt, actions }) => ({
        product_id: productId,
        ...reader,
        reads,
        last_at: lastAt.toISOString(),
        actions,
      })),
      truncated: readers.isCut,
    },
    truncated,
  }
}

function reachedProductJson({ product, steps, columns, recorded }: ReachedProduct) {
  const shown = columns.map(({ name, classification, masked, steps: own, manner }) => {
    return { name, classification, masked, steps: own, manner }
  })
  return { ...productInLineageJson(product), steps, columns: shown, reads_recorded: recorded }
}
