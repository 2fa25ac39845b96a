/** Where files lie: those of the lake, and those of exports. */
import type { JsonSchema } from '@sluice/sdk'
import { type TObject, type TSchema, type TUnsafe, Type } from 'typebox'
import { closed } from './closed.ts'
import {
  OWN_DESTINATIONS,
  OWN_SERVICES,
  type Settings,
  settingsType,
  shownSettings,
  USUAL_OBJECT_STORE,
} from './services.ts'

/** As the schemas let it through; what else there is, the store's plugin takes. */
export interface ObjectStoreConfig {
  /** Of the plugin; `folder` is none. */
  readonly type: string
  /** Not of a folder. */
  readonly cache_mb?: number
  readonly [setting: string]: unknown
}

/** Likewise. */
export interface ExportDestinationConfig {
  /** Of the plugin; default: `USUAL_OBJECT_STORE`. */
  readonly type?: string
  readonly bucket: string
  readonly prefix?: string
  readonly tenants: readonly string[]
  readonly [setting: string]: unknown
}

/** Letters and figures of a bucket and of folders, as all stores take them. */
const DESTINATION = {
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
}

const OWN_DESTINATION = Type.Object({ ...propertiesOf(OWN_DESTINATIONS[USUAL_OBJECT_STORE]), ...DESTINATION }, closed)

/** Its plugin says at the start whether the rest is right. */
const ANY_DESTINATION = Type.Object(
  { type: Type.Optional(Type.String()), ...DESTINATION },
  { additionalProperties: Type.Unknown() },
)

/** @param takesOthers whether a destination may be of a store that a plugin of others brings */
export const exportsOf = (takesOthers: boolean) =>
  Type.Object(
    {
      destinations: Type.Record(
        Type.String({ pattern: '^[a-z][a-z0-9_-]{0,39}$' }),
        takesOthers ? ANY_DESTINATION : OWN_DESTINATION,
        {
          default: {},
          additionalProperties: false,
          description: 'Buckets that files of exports are also written to, by the name that an export asks for.',
        },
      ) as unknown as TUnsafe<Readonly<Record<string, ExportDestinationConfig>>>,
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

/** Copies of a store's files: the runtime's own, whichever store it is. */
const CACHE = {
  cache_mb: Type.Integer({ default: 10_240, minimum: 64, description: 'Copies on this machine for engines.' }),
}

export const OBJECT_STORES: readonly ReturnType<typeof storeType>[] = [
  storeType('folder', 'In a folder of data_dir.', {}),
  ...Object.entries(OWN_SERVICES['object-store']).map(([name, schema]) =>
    storeType(name, schema.description ?? '', { ...propertiesOf(schema), ...CACHE }),
  ),
]

/** One that a plugin of others brings: the plugin says at the start whether its settings are right. */
export const OTHER_OBJECT_STORE = Type.Object(
  { type: Type.String(), ...CACHE },
  { additionalProperties: Type.Unknown() },
)

export const ObjectStore = Type.Union([...OBJECT_STORES], {
  default: { type: 'folder' },
  description: 'Where the lake lies: a folder of data_dir, or buckets.',
}) as unknown as TUnsafe<ObjectStoreConfig>

function storeType(name: string, description: string, settings: Readonly<Record<string, TSchema>>) {
  return Type.Object({ type: Type.Literal(name, { description }), ...settings }, { additionalProperties: false })
}

function propertiesOf(schema: JsonSchema | undefined): Readonly<Record<string, TSchema>> {
  return schema === undefined ? {} : (settingsType(schema) as TObject).properties
}

const OF_RUNTIME = ['type', ...Object.keys(CACHE), ...Object.keys(DESTINATION)]

/** As a store or destination may be shown. */
export function shownStore(store: Settings & { readonly type?: string }): Settings {
  const { type = USUAL_OBJECT_STORE } = store
  const settings = Object.fromEntries(Object.entries(store).filter(([key]) => !OF_RUNTIME.includes(key)))
  return { ...store, ...shownSettings('object-store', type, settings) }
}
