import { type Layer, Router } from '@koa/router'
import { SluiceError } from '@sluice/sdk'
import type { Context } from 'koa'
import { formReader, jsonReader } from './body.ts'
import { bodyReader, type InputReader, paramsReader, queryReader } from './input.ts'
import type { Route } from './route.ts'

/** A route with everything that can be made beforehand. */
export interface CompiledRoute {
  readonly route: Route
  readonly params: InputReader<Readonly<Record<string, string>>>
  readonly query: InputReader<ReadonlyMap<string, readonly string[]>>
  readonly body: InputReader<unknown> | null
  readonly readBody: ((ctx: Context) => Promise<unknown>) | null
}

export interface RouteMatch {
  readonly compiled: CompiledRoute
  readonly params: Readonly<Record<string, string>>
}

const DEFAULT_MAX_BODY_BYTES = 1024 * 1024
const NO_PARAMS = Object.freeze({})
const WITH_BODY = ['POST', 'PUT', 'PATCH']

/**
 * Finds routes by path. One router holds the routes of one resource (`/api/v1/products…`), so that a request is held
 * against a handful of patterns and not against all of them.
 */
export class RouteTable {
  readonly #routers = new Map<string, Router>()
  readonly #compiled = new Map<Layer, CompiledRoute>()
  readonly routes: readonly Route[]

  constructor(routes: readonly Route[], maxBodyBytes = DEFAULT_MAX_BODY_BYTES) {
    this.routes = routes
    const readJson = jsonReader(maxBodyBytes)
    for (const route of routes.toSorted(bySpecificity)) this.#add(route, readJson)
  }

  match(path: string, method: string): RouteMatch | null {
    const result = this.#routers.get(resourceOf(path))?.match(path, method)
    const layer = result?.pathAndMethod[0]
    if (layer === undefined) return null
    const params = layer.paramNames.length === 0 ? NO_PARAMS : layer.params(path, layer.captures(path))
    return { compiled: this.#compiled.get(layer) as CompiledRoute, params }
  }

  /** Methods of the path, in the order of the table; empty where nothing has the path. */
  methodsOf(path: string): readonly string[] {
    const layers = this.#routers.get(resourceOf(path))?.match(path, 'OPTIONS').path ?? []
    return [...new Set(layers.flatMap((layer) => layer.methods))]
  }

  #add(route: Route, readJson: (ctx: Context) => Promise<unknown>): void {
    refuseHalfDefined(route)
    const resource = resourceOf(route.path)
    const router = this.#routers.get(resource) ?? new Router({ sensitive: true, strict: true })
    this.#routers.set(resource, router)
    router.register(route.path.replace(/\{(\w+)\}/g, ':$1'), [route.method], NOTHING)
    const layer = router.stack.at(-1) as Layer
    if ([...this.#compiled.values()].some((other) => sameAddress(other.route, route))) {
      throw misdefined(route, 'another route has the same method and path')
    }
    this.#compiled.set(layer, compile(route, readJson))
  }
}

const NOTHING = async () => {}

function compile(route: Route, readJson: (ctx: Context) => Promise<unknown>): CompiledRoute {
  const takesBody = WITH_BODY.includes(route.method)
  return {
    route,
    params: paramsReader(route.params),
    query: queryReader(route.query),
    body: takesBody && route.multipart === undefined ? bodyReader(route.body) : null,
    readBody: takesBody ? (route.multipart === undefined ? readJson : formReader(route.multipart)) : null,
  }
}

/** The segment after `/api/v1/`, or the first one: every route of a resource shares it, and it is never a parameter. */
function resourceOf(path: string): string {
  const start = path.startsWith('/api/v1/') ? 8 : 1
  const end = path.indexOf('/', start)
  return path.slice(start, end < 0 ? path.length : end)
}

/** Fixed segments before parameters, so that `/connections/types` is not the connection named "types". */
function bySpecificity(left: Route, right: Route): number {
  const [a, b] = [left.path.split('/'), right.path.split('/')]
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    const difference = Number(a[at]?.startsWith('{')) - Number(b[at]?.startsWith('{'))
    if (difference !== 0) return difference
  }
  return 0
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
