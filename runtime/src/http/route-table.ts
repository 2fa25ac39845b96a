import { type Layer, Router } from '@koa/router'
import { parseJsonExactly } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import { type BodyParser, bytesReader, formReader, ignoringReader, jsonReader, streamReader } from './body.ts'
import { mayCompress } from './compression.ts'
import { bodyReader, type InputReader, paramsReader, queryReader } from './input.ts'
import { offeredTypes } from './media-types.ts'
import { type BodyFormat, mayLackBody, type Route } from './route.ts'

/** A route with what is made once for all of its requests; readers of inputs when the first request needs them. */
export interface CompiledRoute {
  readonly route: Route
  readonly params: InputReader<Readonly<Record<string, string>>>
  readonly query: InputReader<string>
  readonly body: InputReader<unknown> | null
  /** Media types that its answer may have; none: any. */
  readonly types: readonly string[]
  readonly mayCompress: boolean
  readonly readBody: BodyParser | null
  readonly mayLackBody: boolean
}

export interface RouteMatch {
  readonly compiled: CompiledRoute
  readonly params: Readonly<Record<string, string>>
}

const DEFAULT_MAX_BODY_BYTES = 1024 * 1024
const NO_PARAMS = Object.freeze({})
const WITH_BODY = ['POST', 'PUT', 'PATCH']

interface Entry {
  readonly layer: Layer
  readonly compiled: CompiledRoute
}

/**
 * Finds routes by path. The patterns are those of @koa/router; a request is held against the few that have its
 * resource (`/api/v1/products…`) and its last segment, or a parameter in its place, instead of against all of them.
 */
export class RouteTable {
  readonly #router = new Router({ sensitive: true, strict: true })
  readonly #entries = new Map<string, Map<string, Entry[]>>()
  readonly routes: readonly Route[]

  constructor(routes: readonly Route[], maxBodyBytes = DEFAULT_MAX_BODY_BYTES) {
    this.routes = routes
    const readers: Readonly<Record<BodyFormat, (route: Route) => BodyParser>> = {
      json: ({ body: schema, mostValues }) => jsonReader(maxBodyBytes, { schema, mostValues }),
      'exact-json': ({ body: schema }) => jsonReader(maxBodyBytes, { schema, parse: parseJsonExactly }),
      ignored: () => ignoringReader(maxBodyBytes),
      bytes: () => bytesReader(maxBodyBytes),
      stream: () => streamReader(),
    }
    for (const route of routes.toSorted(bySpecificity)) this.#add(route, readers[route.bodyFormat ?? 'json'](route))
  }

  match(path: string, method: string): RouteMatch | null {
    const ofResource = this.#entries.get(resourceOf(path))
    if (ofResource === undefined) return null
    return (
      firstMatch(ofResource.get(lastSegmentOf(path)), path, method) ??
      firstMatch(ofResource.get(ANY_SEGMENT), path, method)
    )
  }

  /** Methods of the path, in the order of the table; empty where nothing has the path. */
  methodsOf(path: string): readonly string[] {
    const ofResource = this.#entries.get(resourceOf(path))
    const candidates = [lastSegmentOf(path), ANY_SEGMENT].flatMap((segment) => ofResource?.get(segment) ?? [])
    const layers = candidates.filter(({ layer }) => layer.match(path))
    return [...new Set(layers.flatMap(({ layer }) => layer.methods))]
  }

  #add(route: Route, readBody: BodyParser): void {
    refuseHalfDefined(route)
    const ofResource = this.#entries.get(resourceOf(route.path)) ?? new Map<string, Entry[]>()
    this.#entries.set(resourceOf(route.path), ofResource)
    const last = lastSegmentOf(route.path)
    const segment = last.startsWith('{') ? ANY_SEGMENT : last
    const entries = ofResource.get(segment) ?? []
    ofResource.set(segment, entries)
    if (entries.some((other) => sameAddress(other.compiled.route, route))) {
      throw misdefined(route, 'another route has the same method and path')
    }
    this.#router.register(route.path.replace(/\{(\w+)\}/g, ':$1'), [route.method], NOTHING)
    entries.push({ layer: this.#router.stack.at(-1) as Layer, compiled: compile(route, readBody) })
  }
}

/** No segment of a path has this name. */
const ANY_SEGMENT = '/'

function firstMatch(entries: readonly Entry[] | undefined, path: string, method: string): RouteMatch | null {
  if (entries === undefined) return null
  for (const { layer, compiled } of entries) {
    if (!layer.methods.includes(method)) continue
    const captured = layer.regexp.exec(path)
    if (captured !== null) return { compiled, params: paramsOf(layer, captured) }
  }
  return null
}

function lastSegmentOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** The path is known to decode: malformed ones were refused before. */
function paramsOf(layer: Layer, captured: RegExpExecArray): Readonly<Record<string, string>> {
  if (layer.paramNames.length === 0) return NO_PARAMS
  const params: Record<string, string> = {}
  for (let at = 0; at < layer.paramNames.length; at++) {
    const text = captured[at + 1] ?? ''
    params[layer.paramNames[at]?.name as string] = text.includes('%') ? decodeURIComponent(text) : text
  }
  return params
}

const NOTHING = async () => {}

function compile(route: Route, readBody: BodyParser): CompiledRoute {
  const takesBody = WITH_BODY.includes(route.method)
  // Validators of all routes are a tenth of a start, and most runtimes are asked by few of them.
  const params = onceMade(() => paramsReader(route.params))
  const query = onceMade(() => queryReader(route.query))
  const body = onceMade(() => (takesBody && route.multipart === undefined ? bodyReader(route.body) : null))
  return {
    route,
    get params() {
      return params()
    },
    get query() {
      return query()
    },
    get body() {
      return body()
    },
    types: offeredTypes(route),
    mayCompress: mayCompress(route),
    mayLackBody: mayLackBody(route),
    readBody: takesBody ? (route.multipart === undefined ? readBody : formReader(route.multipart)) : null,
  }
}

function onceMade<Made>(make: () => Made): () => Made {
  let made: { readonly value: Made } | null = null
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** The segment after `/api/v1/`, or the first one: every route of a resource shares it, and it is never a parameter. */
function resourceOf(path: string): string {
  const start = path.startsWith('/api/v1/') ? 8 : 1
  const end = path.indexOf('/', start)
  return path.slice(start, end < 0 ? path.length : end)
}

/**
 * Fixed segments before parameters, so that `/connections/types` is not the connection named "types"; HEAD before GET,
 * which takes it too.
 */
function bySpecificity(left: Route, right: Route): number {
  const [a, b] = [left.path.split('/'), right.path.split('/')]
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    const difference = Number(a[at]?.startsWith('{')) - Number(b[at]?.startsWith('{'))
    if (difference !== 0) return difference
  }
  return Number(right.method === 'HEAD') - Number(left.method === 'HEAD')
}

function sameAddress(left: Route, right: Route): boolean {
  const shape = (path: string) => path.replace(/\{\w+\}/g, '{}')
  return left.method === right.method && shape(left.path) === shape(right.path)
}

function refuseHalfDefined(route: Route): void {
  const named = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string)
  const described = Object.keys(route.params?.properties ?? {})
  if (named.toSorted().join() !== described.toSorted().join()) throw misdefined(route, 'params and path differ')
  if (route.idempotent && route.authorize === undefined) throw misdefined(route, 'idempotent without authorize')
}

function misdefined(route: Route, reason: string): SluiceError {
  return new SluiceError('INTERNAL', `the route ${route.method} ${route.path} is wrong: ${reason}`, {
    code: 'internal_error',
  })
}
