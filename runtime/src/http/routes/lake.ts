import type { EngineLimits } from '@sluice/engine'
import { Type } from 'typebox'
import { requireDeveloper } from '../../operations/permissions.ts'
import type { UpkeepDeps } from '../../operations/upkeep/deps.ts'
import { keepUp, UPKEEP_TASKS } from '../../operations/upkeep/lake-upkeep.ts'
import { toldUpkeep } from '../../operations/upkeep/told-upkeep.ts'
import { defineRoute, type Route } from '../route.ts'

/** A call that has more to do says where to go on. */
const CALL_MS = 60_000
const TIMEOUT_MS = 280_000
const MAX_NAME = 600

const Params = Type.Object({ task: Type.Union(UPKEEP_TASKS.map((task) => Type.Literal(task))) })
const Body = Type.Object(
  {
    table: Type.Optional(Type.String({ maxLength: MAX_NAME, description: 'Only this one: `namespace.table`.' })),
    after: Type.Optional(Type.String({ maxLength: MAX_NAME, description: '`next` of the answer before.' })),
  },
  { additionalProperties: false },
)

export function lakeRoutes(deps: UpkeepDeps, limits: EngineLimits): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/lake/{task}',
      name: 'keepUpLake',
      summary: 'Compact, expire, clean or check the lake tables of a tenant now',
      description:
        'What also runs by the clock. Files are named below the folder of their table. How much a table holds is told to who may read it, in the clear. With `next` in the answer, call again with it as `after`.',
      tags: ['Lake'],
      auth: 'tenant',
      params: Params,
      body: Body,
      timeoutMs: TIMEOUT_MS,
      responses: { 200: { description: 'What was done, and what was found, by table.' } },
      errors: ['lake_table_not_found'],
      async handler(call) {
        requireDeveloper(call.principal)
        const { table, after } = call.body
        const report = await keepUp(
          deps,
          {
            tenant: call.tenant,
            task: call.params.task,
            ...(table === undefined ? {} : { table }),
            ...(after === undefined ? {} : { after }),
            untilMs: performance.now() + CALL_MS,
            limits: { ...limits, timeoutMs: Math.min(limits.timeoutMs, TIMEOUT_MS - CALL_MS) },
          },
          call.signal,
        )
        const { task, tablesSeen, next } = report
        return {
          body: { task, tables: await toldUpkeep(deps, call, report.tables), tables_seen: tablesSeen, next },
        }
      },
    }),
  ]
}
