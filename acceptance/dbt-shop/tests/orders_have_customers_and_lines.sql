select o.order_id
from {{ ref('late_orders') }} o
left join {{ ref('orders') }} using (order_id)
where orders.order_id is null
