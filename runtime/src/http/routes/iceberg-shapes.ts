/** Parameters and answers of the Iceberg catalog's routes. Its bodies are checked where they are understood. */
import { stringifyJsonExactly } from '@sluice/iceberg'
import { Type } from 'typebox'
import type { LoadedTable } from '../../operations/catalog/read.ts'
import type { Reply } from '../route.ts'

export const ICEBERG = {
  tags: ['Iceberg'],
  auth: 'tenant',
  hidden: true,
  responses: { 200: { description: 'As the Iceberg REST specification says.' } },
} as const

export const WAREHOUSE = '/iceberg/v1/{prefix}'
export const NAMESPACES = `${WAREHOUSE}/namespaces` as const
export const NAMESPACE = `${NAMESPACES}/{namespace}` as const
export const TABLE = `${NAMESPACE}/tables/{table}` as const

const Segment = Type.String({ minLength: 1, maxLength: 500 })

export const WarehouseParams = Type.Object({ prefix: Segment })
export const NamespaceParams = Type.Object({ prefix: Segment, namespace: Segment })
export const TableParams = Type.Object({ prefix: Segment, namespace: Segment, table: Segment })

const paging = {
  pageToken: Type.Optional(Type.String({ maxLength: 1000 })),
  pageSize: Type.Optional(Type.Integer({ minimum: 1 })),
}

export const NamespacesQuery = Type.Object({ ...paging, parent: Type.Optional(Type.String({ maxLength: 500 })) })
export const TablesQuery = Type.Object(paging)
export const ConfigQuery = Type.Object({ warehouse: Type.Optional(Type.String({ maxLength: 500 })) })
export const LoadQuery = Type.Object({
  snapshots: Type.Optional(Type.Union([Type.Literal('all'), Type.Literal('refs')])),
})
export const DropQuery = Type.Object({
  purgeRequested: Type.Optional(Type.String({ pattern: '^([Tt]rue|[Ff]alse)$', 'x-expected': 'true or false' })),
})

/** Bodies hold more than what a reader of them needs, and newer clients send more. */
export const AnyBody = Type.Unknown()

/** Ids of snapshots have 63 bits: they must not become floats on their way out. */
export function exactly(body: unknown, status = 200): Reply {
  return { status, json: stringifyJsonExactly(body) }
}

/** What clients are to set for the files of a table. */
export type TableSettings = (params: {
  readonly prefix: string
  readonly namespace: string
  readonly table: string
}) => Readonly<Record<string, string>>

export function tableReply(
  { metadataLocation, metadata }: Pick<LoadedTable, 'metadataLocation' | 'metadata'>,
  config: Readonly<Record<string, string>>,
): Reply {
  return exactly({
    ...(metadataLocation === null ? {} : { 'metadata-location': metadataLocation }),
    metadata,
    config,
  })
}

/** `listing` names its own key: `namespaces` or `identifiers`. */
export function listReply(key: string, listing: readonly unknown[], nextToken: string | null): Reply {
  return { body: { [key]: listing, ...(nextToken === null ? {} : { 'next-page-token': nextToken }) } }
}
