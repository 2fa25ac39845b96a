{{ config(materialized='view') }}
select o.order_id, o.order_date, o.amount, c.full_name
from {{ ref('orders') }} o, {{ ref('customers') }} c
where o.customer_id = c.customer_id
  and o.status in ('return_pending', 'returned')
  and exists (select 1 from {{ ref('order_lines') }} where order_lines.order_id = o.order_id)
