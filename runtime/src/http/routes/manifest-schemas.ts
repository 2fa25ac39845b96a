import { Type } from 'typebox'
import type { ServingTypes } from '../../manifest/context.ts'
import { manifestSchemas } from '../../manifest/json-schemas.ts'
import { MANIFEST_NAMES } from '../../manifest/problem.ts'
import { defineRoute, type Route } from '../route.ts'

/** What editors complete and check manifests by: they send no token, and the schemas say nothing of anybody's data. */
export function manifestSchemaRoutes(servingTypes: ServingTypes): readonly Route[] {
  const texts = new Map(Object.entries(manifestSchemas(servingTypes)).map(([name, it]) => [name, JSON.stringify(it)]))
  return [
    defineRoute({
      method: 'GET',
      path: '/api/v1/manifest-schemas/{manifest}',
      name: 'getManifestSchema',
      summary: 'The JSON Schema of a manifest, for editors',
      description: 'With what the stores of this runtime take in serving.yaml.',
      tags: ['Products'],
      auth: 'none',
      params: Type.Object({ manifest: Type.Union(MANIFEST_NAMES.map((name) => Type.Literal(name))) }),
      responses: { 200: { description: 'A JSON Schema of draft 2020-12.' } },
      handler: ({ params }) => ({
        json: texts.get(params.manifest) as string,
        headers: { 'Cache-Control': 'public, max-age=60' },
      }),
    }),
  ]
}
