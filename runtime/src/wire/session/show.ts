/** SHOW of a setting, and of all. */
import { DEFAULT_PATH_SQL } from '../catalogue/own-views.ts'
import { shownName } from '../sql/commands.ts'
import { type Statement, statementsOf } from '../sql/words.ts'
import type { RowPlan, SessionPlanParts } from './row-plan.ts'
import { rowPlan, shownPlan } from './row-plans.ts'
import type { Settings } from './settings.ts'

/** Throws 42704 for what is not told. */
export function showPlan(parts: SessionPlanParts & { readonly settings: Settings }, { words }: Statement): RowPlan {
  const { settings } = parts
  const name = shownName(words)
  if (name.toLowerCase() === 'all') {
    return shownPlan(['name', 'setting', 'description'], () =>
      settings.all().map((one) => [one.name, settings.value(one.name), '']),
    )
  }
  settings.value(name)
  const shown = shownPlan([name], () => [[settings.value(name)]])
  if (name.toLowerCase() !== 'search_path') return shown
  const [all] = statementsOf(`SELECT ${DEFAULT_PATH_SQL} AS search_path`)
  const ofAll = rowPlan(parts, all as Statement, [])
  const plan = (): RowPlan => (settings.searchPath === null ? ofAll : shown)
  return {
    tag: () => 'SHOW',
    describe: (call) => plan().describe(call),
    open: (call, bound) => plan().open(call, bound),
  }
}
