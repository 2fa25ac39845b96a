/** Where files lie: those of the lake, and those of exports. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

/** Where buckets are, and the key to them. */
const S3_FIELDS = {
  endpoint: Type.String({ description: 'Address of an S3-compatible store: https://s3.example.com.' }),
  region: Type.String({ default: 'us-east-1', description: 'Of the buckets; requests are signed for it.' }),
  access_key_id: Type.String({ description: 'Of the key that requests are signed with.' }),
  secret_access_key: Type.String({ description: 'The secret of that key.' }),
  session_token: Type.Optional(Type.String({ description: 'Of a key that is lent for a time.' })),
  path_style: Type.Boolean({ default: true, description: 'Buckets in the path, not in the host’s name.' }),
}

/** Letters and figures of a bucket and of folders, as all stores take them. */
export const ExportDestination = Type.Object(
  {
    ...S3_FIELDS,
    bucket: Type.String({
      pattern: '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$',
      description: 'It must exist; the key needs to write to it, and no more.',
    }),
    prefix: Type.Optional(
      Type.String({
        maxLength: 200,
        pattern: '^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$',
        description: 'Folders before those of the tenants: exports/sluice. Default: none.',
      }),
    ),
    tenants: Type.Array(Type.String(), { minItems: 1, description: 'Whose exports may go there.' }),
  },
  closed,
)

export const Exports = Type.Object(
  {
    destinations: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_-]{0,39}$' }), ExportDestination, {
      default: {},
      additionalProperties: false,
      description: 'Buckets that files of exports are also written to, by the name that an export asks for.',
    }),
    keep_hours: Type.Integer({
      default: 24,
      minimum: 1,
      maximum: 720,
      description: 'How long a file is kept once it is written.',
    }),
    link_seconds: Type.Integer({
      default: 900,
      minimum: 1,
      maximum: 86_400,
      description: 'How long a link to a file is good for. Who asks for the export again gets another.',
    }),
    most: Type.Integer({
      default: 10,
      minimum: 1,
      maximum: 1_000,
      description:
        'Of a tenant at once: those that wait, are written or are kept. One person has half of them at most.',
    }),
    megabytes: Type.Integer({
      default: 16_384,
      minimum: 1,
      description: 'Of one file. One that is larger fails; so does one that the tenant has no room for.',
    }),
    timeout_minutes: Type.Integer({
      default: 60,
      minimum: 1,
      maximum: 1_440,
      description:
        'For writing one file. With fewer than three engine processes also limits.transform_timeout_ms bounds it.',
    }),
  },
  closed,
)

export const OBJECT_STORES = [
  Type.Object(
    { type: Type.Literal('folder', { description: 'In a folder of data_dir.' }) },
    { additionalProperties: false },
  ),
  Type.Object(
    {
      type: Type.Literal('s3', { description: 'In buckets of an S3-compatible store, one a tenant.' }),
      ...S3_FIELDS,
      deadline_ms: Type.Integer({
        default: 120_000,
        minimum: 1000,
        description: 'One operation, retries and all.',
      }),
      attempt_ms: Type.Integer({
        default: 30_000,
        minimum: 100,
        description: 'One attempt; where an object is copied for engines, the time without any bytes.',
      }),
      part_mb: Type.Integer({ default: 16, minimum: 5, maximum: 1024, description: 'Of an upload in parts, each.' }),
      cache_mb: Type.Integer({
        default: 10_240,
        minimum: 64,
        description: 'Copies on this machine for engines.',
      }),
    },
    { additionalProperties: false },
  ),
] as const

export const ObjectStore = Type.Union([...OBJECT_STORES], {
  default: { type: 'folder' },
  description: 'Where the lake lies: a folder of data_dir, or buckets.',
})
