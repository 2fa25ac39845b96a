import { Type } from 'typebox'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { Page } from './requests/paths.ts'

export interface CertificateSummary {
  readonly level: string
  readonly date: string | null
  readonly sdk: string
  readonly suite: string
  readonly dependencies: string | null
  readonly key: string
  readonly signer: string | null
}

export interface PluginProofSummary {
  readonly status: string
  readonly levels: readonly string[]
  readonly certificates: readonly CertificateSummary[]
  readonly off: readonly string[]
  readonly message: string
}

export interface PluginSummary {
  readonly name: string
  readonly version: string
  readonly type: string
  readonly kind: string
  readonly package: string
  readonly package_version: string
  readonly sdk: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly proof: PluginProofSummary
  readonly health: {
    readonly status: string
    readonly since?: string
    readonly message?: string
    readonly remedy?: string
  }
}

const Plugin = Type.Object(
  {
    name: Type.String(),
    version: Type.String(),
    type: Type.String({
      description: 'What it serves: lookup, timeseries, analytics, realtime; or connector; or of a service its kind.',
    }),
    kind: Type.String({
      description:
        'serving, connector, or of a service, which brings a server beside the runtime: event-bus, dashboard, object-store, compute.',
    }),
    package: Type.String(),
    package_version: Type.String(),
    sdk: Type.String({ description: 'The versions of the contract that it was written for.' }),
    capabilities: Type.Record(Type.String(), Type.Unknown(), { description: 'What is switched on.' }),
    proof: Type.Object({
      status: Type.String({
        description: 'bundled, certified, unproved, or allowed (on without proof, as services of others always are).',
      }),
      levels: Type.Array(Type.String(), { description: 'Of the certificates that count: core, full, hard.' }),
      certificates: Type.Array(
        Type.Object({
          level: Type.String(),
          date: Type.Union([Type.String(), Type.Null()], { description: 'YYYY-MM-DD; null: unknown.' }),
          sdk: Type.String({ description: 'The version of the contract that it was tried under.' }),
          suite: Type.String({ description: 'The version of sluice-conformance.' }),
          dependencies: Type.Union([Type.String(), Type.Null()], {
            description: 'SHA-256 of what the plugin was tried with, by its lockfile; null: unknown.',
          }),
          key: Type.String({ description: 'A short name of the key that signed it.' }),
          signer: Type.Union([Type.String(), Type.Null()], { description: 'Who signed, in his own words.' }),
        }),
        { description: 'Those that count.' },
      ),
      off: Type.Array(Type.String(), { description: 'What it declares and is switched off, being unproved.' }),
      message: Type.String(),
    }),
    health: Type.Object({
      status: Type.String({
        description: 'ok, degraded or down; unused: another serves the type; unknown: a service that cannot be asked.',
      }),
      since: Type.Optional(Type.String({ format: 'date-time', description: 'Of a service: since when it is so.' })),
      message: Type.Optional(Type.String()),
      remedy: Type.Optional(Type.String({ description: 'Of a service that is down: what to do.' })),
    }),
  },
  { $id: 'Plugin' },
)

export function pluginRoutes(list: () => readonly PluginSummary[]): readonly Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/api/v1/plugins',
      name: 'listPlugins',
      summary: 'Plugins that this runtime has loaded',
      tags: ['Plugins'],
      auth: 'any',
      query: Page,
      responses: { 200: { description: 'All of them: there is no second page.', schema: pageOf(Plugin) } },
      handler: () => ({ body: { data: list(), next_cursor: null } }),
    }),
  ]
}
