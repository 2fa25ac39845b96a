import type { JsonSchema } from '@sluice/sdk'
import { asObject, expectNoOthers, invalid, parseTables, tablesSchema } from '../files/settings.ts'
import type { TableOfFiles, TableSettings } from '../files/table-settings.ts'

export interface S3FilesSettings {
  readonly endpoint: string
  readonly region?: string
  readonly bucket: string
  readonly prefix?: string
  readonly access_key: string
  readonly secret_key: string
  readonly path_style?: boolean
  readonly tables?: Readonly<Record<string, TableSettings>>
}

/** Where the objects are, and as whom they are read. */
export interface BucketPlace {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
  readonly region: string
  readonly bucket: string
  /** What every key begins with, its last `/` included; or nothing. */
  readonly prefix: string
  readonly accessKey: string
  readonly secretKey: string
  readonly pathStyle: boolean
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  description: 'A bucket of S3 with CSV, JSON-lines, Parquet and Avro files to read from.',
  additionalProperties: false,
  required: ['endpoint', 'bucket', 'access_key', 'secret_key'],
  properties: {
    endpoint: {
      type: 'string',
      pattern: '^https?://[^/?#@\\s]+/?$',
      maxLength: 300,
      description: 'Address of the server: https://s3.eu-central-1.amazonaws.com.',
      examples: ['https://s3.eu-central-1.amazonaws.com'],
    },
    region: { type: 'string', minLength: 1, maxLength: 64, default: 'us-east-1', description: 'Region of the bucket.' },
    bucket: {
      type: 'string',
      pattern: '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$',
      description: 'Name of the bucket.',
      examples: ['acme-files'],
    },
    prefix: {
      type: 'string',
      maxLength: 512,
      default: '',
      description: 'The folder in it that is read; absent: all of it.',
    },
    access_key: {
      type: 'string',
      minLength: 1,
      maxLength: 256,
      description: 'Key that may list and read there.',
      examples: ['AKIA…'],
    },
    secret_key: { type: 'string', minLength: 1, maxLength: 256, description: 'Its secret.', 'x-secret': true },
    path_style: {
      type: 'boolean',
      default: true,
      description: 'Whether the bucket stands in the path of an address and not before the host.',
    },
    tables: tablesSchema,
  },
  examples: [
    {
      endpoint: 'https://s3.eu-central-1.amazonaws.com',
      region: 'eu-central-1',
      bucket: 'acme-files',
      access_key: 'AKIA…',
      secret_key: '…',
      tables: { orders: { glob: 'orders/*.csv', format: 'csv', primary_key: ['id'] } },
    },
  ],
}

/** Throws CONFIG for what the schema lets pass and cannot be right. */
export function parseBucketSettings(settings: unknown): {
  readonly place: BucketPlace
  readonly tables: readonly TableOfFiles[]
} {
  const {
    endpoint,
    region = 'us-east-1',
    bucket,
    prefix = '',
    access_key,
    secret_key,
    path_style = true,
    tables,
    ...others
  } = asObject(settings, 'the settings')
  expectNoOthers(others, 'the settings')
  const text = (value: unknown, name: string): string => {
    if (typeof value === 'string' && (value !== '' || name === 'prefix')) return value
    throw invalid(`${name} is no text`, `Write a text for ${name}.`)
  }
  const url = URL.canParse(text(endpoint, 'endpoint')) ? new URL(text(endpoint, 'endpoint')) : null
  const isTls = url?.protocol === 'https:'
  if (
    url === null ||
    (!isTls && url.protocol !== 'http:') ||
    url.pathname !== '/' ||
    url.username !== '' ||
    url.search !== ''
  )
    throw invalid('endpoint is no address of a server', 'Write it as https://s3.example.com.')
  if (typeof path_style !== 'boolean') throw invalid('path_style is neither true nor false', 'Write true or false.')
  const folder = text(prefix, 'prefix').replace(/\/+$/, '')
  if (folder.startsWith('/') || folder.includes('\0'))
    throw invalid('prefix is no folder of a bucket', 'Write it as folder/within.')
  return {
    place: {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
      isTls,
      region: text(region, 'region'),
      bucket: text(bucket, 'bucket'),
      prefix: folder === '' ? '' : `${folder}/`,
      accessKey: text(access_key, 'access_key'),
      secretKey: text(secret_key, 'secret_key'),
      pathStyle: path_style,
    },
    tables: parseTables(tables),
  }
}
