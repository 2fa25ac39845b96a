/** Settings of plugins that bring a server beside the runtime, by the name that the configuration chooses one by. */
import { settingsSchema as trino } from '@sluice/compute/trino/settings'
import { settingsSchema as superset } from '@sluice/dashboard/superset/settings'
import { settingsSchema as kafka } from '@sluice/event-bus/kafka/settings'
import { settingsSchema as s3, destinationSchema as s3Destination } from '@sluice/object-store/s3/settings'
import type { JsonSchema, ServiceKind } from '@sluice/sdk'
import { type TSchema, Type } from 'typebox'
import { closed } from './closed.ts'

export type Settings = Readonly<Record<string, unknown>>

/** Of those that come with the runtime. */
export const OWN_SERVICES: Readonly<Record<ServiceKind, Readonly<Record<string, JsonSchema>>>> = {
  compute: { trino },
  dashboard: { superset },
  'event-bus': { kafka },
  'object-store': { s3 },
}

/** Of places that exports are written to, in those of these stores that need less for it. */
export const OWN_DESTINATIONS: Readonly<Record<string, JsonSchema>> = { s3: s3Destination }

/** What a destination of exports is that does not say its type. */
export const USUAL_OBJECT_STORE = 's3'

/**
 * A map that names one plugin of the kind and its settings. What a plugin of others takes is known once it is loaded:
 * where such a one is configured, other names are let through as they are.
 */
export function serviceByName(kind: ServiceKind, takesOthers = false): TSchema {
  const own = Object.entries(OWN_SERVICES[kind]).map(
    ([name, schema]) => [name, Type.Optional(settingsType(schema))] as const,
  )
  const others = takesOthers ? { additionalProperties: Type.Record(Type.String(), Type.Unknown()) } : {}
  return Type.Object(Object.fromEntries(own), { ...closed, ...others, maxProperties: 1 })
}

export const HIDDEN = '********'

/**
 * The settings of one, as they may be shown: without those that its schema calls secret. Of a plugin of others it is not known
 * here which these are, and none is shown.
 */
export function shownSettings(kind: ServiceKind, name: string, settings: Settings): Settings {
  const own = Object.hasOwn(OWN_SERVICES[kind], name) ? OWN_SERVICES[kind][name] : undefined
  const isShown = (key: string) => own !== undefined && own.properties?.[key]?.['x-secret'] !== true
  return Object.fromEntries(Object.entries(settings).map(([key, value]) => [key, isShown(key) ? value : HIDDEN]))
}

/** The same of a map that names one and its settings. */
export function shownServices(kind: ServiceKind, named: Readonly<Record<string, Settings>>): object {
  return Object.fromEntries(
    Object.entries(named).map(([name, settings]) => [name, shownSettings(kind, name, settings)]),
  )
}

/**
 * The schema as the library can convert by and fill defaults in: texts of the environment become what a setting is.
 * Covers what `JsonSchema` of the SDK has.
 */
export function settingsType(schema: JsonSchema): TSchema {
  const { type, properties, required = [], items, enum: allowed, const: only, ...options } = schema
  if (only !== undefined) return Type.Literal(only, options)
  if (allowed !== undefined)
    return Type.Union(
      allowed.map((value) => Type.Literal(value)),
      options,
    )
  switch (type) {
    case 'object':
      return objectType(properties ?? {}, required, options)
    case 'array':
      return Type.Array(items === undefined ? Type.Unknown() : settingsType(items), options)
    case 'string':
      return Type.String(options)
    case 'integer':
      return Type.Integer(options)
    case 'number':
      return Type.Number(options)
    case 'boolean':
      return Type.Boolean(options)
    default:
      return Type.Unknown(options)
  }
}

function objectType(
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[],
  { additionalProperties: others, ...options }: JsonSchema,
): TSchema {
  if (Object.keys(properties).length === 0 && typeof others === 'object') {
    return Type.Record(Type.String(), settingsType(others), options)
  }
  const fields = Object.entries(properties).map(([name, schema]) => {
    const field = settingsType(schema)
    return [name, required.includes(name) || schema.default !== undefined ? field : Type.Optional(field)] as const
  })
  const rest = typeof others === 'object' ? settingsType(others) : (others ?? true)
  return Type.Object(Object.fromEntries(fields), { ...options, additionalProperties: rest })
}
