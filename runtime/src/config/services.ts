/** Settings of plugins that bring a server beside the runtime, by the name that the configuration chooses one by. */
import { SUPERSET_SETTINGS } from '@sluice/dashboard/superset/settings'
import { settingsSchema as kafkaBus } from '@sluice/event-bus/kafka/settings'
import type { JsonSchema, ServiceKind } from '@sluice/sdk'
import { type TSchema, Type } from 'typebox'
import { closed } from './closed.ts'

export type Settings = Readonly<Record<string, unknown>>

/** Of those that come with the runtime. */
export const OWN_SERVICES: Readonly<Record<ServiceKind, Readonly<Record<string, JsonSchema>>>> = {
  compute: {},
  dashboard: { superset: SUPERSET_SETTINGS },
  'event-bus': { kafka: kafkaBus },
  'object-store': {},
}

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

/** As they may be shown: of a plugin of others it is not known here which of its settings are secret. */
export function shownServices(kind: ServiceKind, named: Readonly<Record<string, unknown>>): object {
  const shown = (name: string) => (Object.hasOwn(OWN_SERVICES[kind], name) ? named[name] : '********')
  return Object.fromEntries(Object.keys(named).map((name) => [name, shown(name)]))
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
